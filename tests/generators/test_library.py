"""Folders of programs."""

import pytest

from corpus.case import Case
from corpus.errors import UserError
from generators import Options, generate, make_case
from generators.mutations.modes import Mode
from oracles.verdict import REFUSAL, SURVIVAL


def test_each_program_is_a_case_folder(tmp_path):
    generated = generate(tmp_path, 5, 8, seed=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"seed-{seed}" for seed in range(3, 8)]
    assert Case.load(tmp_path / "seed-4").case_id == make_case(4, 8).case_id
    assert generated.facts()["models"] == 5
    assert generated.facts()["op_types"] <= 40


def test_what_was_written_before_is_left_as_it_is(tmp_path):
    whole = generate(tmp_path, 3, 5)
    before = (tmp_path / "seed-1" / "model.onnx").stat().st_mtime_ns
    again = generate(tmp_path, 4, 5)
    assert (tmp_path / "seed-1" / "model.onnx").stat().st_mtime_ns == before
    assert again.counts.models == whole.counts.models + 1


def test_a_folder_of_other_programs_is_refused(tmp_path):
    generate(tmp_path, 2, 5)
    with pytest.raises(UserError, match="holds another program"):
        generate(tmp_path, 2, 6)


def test_what_was_done_to_a_program_is_in_its_notes_and_its_demand(tmp_path):
    for mode, word, demand in (
        (Mode.DISRUPTIVE, "violation: ", REFUSAL),
        (Mode.VULNERABLE, "hazard: ", SURVIVAL),
    ):
        generate(tmp_path / mode, 20, 6, options=Options(mode=mode))
        cases = [Case.load(folder) for folder in sorted((tmp_path / mode).iterdir())]
        changed = [case for case in cases if case.settings == (demand,)]
        assert len(changed) >= 18
        assert all(case.notes[0].startswith(word) for case in changed)
    generate(tmp_path / "mixed", 60, 3, options=Options(mode=Mode.MIXED))
    settings = {Case.load(folder).settings for folder in (tmp_path / "mixed").iterdir()}
    assert settings == {(), (REFUSAL,), (SURVIVAL,)}
