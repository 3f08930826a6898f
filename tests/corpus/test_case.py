"""A case is its folder: what is saved is what is loaded, byte for byte, and its hashes say what it is."""

import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from corpus.case import Case
from corpus.errors import UserError
from corpus.load import open_case
from corpus.outputs import own
from corpus.reading import SCRATCH, ExternalFile
from corpus.target import Target
from tests.helpers.models import contents, external, identity, model_of, relu, value, write


def full_case(tmp_path: Path) -> Case:
    """A case with everything that one can have."""
    source = tmp_path / "source"
    program = external("data/w.bin", 4)
    write(source, program)
    (source / "data").mkdir()
    (source / "data" / "w.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    case = open_case(source, target=Target.parse("ort:cuda@opt=all"))
    return dataclasses.replace(case, settings=(("passes", "a,b"),), notes=("noted",)).relocated


def test_a_folder_round_trips_byte_for_byte(tmp_path):
    case = full_case(tmp_path)
    case.save(tmp_path / "one")
    loaded = Case.load(tmp_path / "one")
    assert loaded == case == open_case(tmp_path / "one")
    assert (loaded.program, loaded.settings, loaded.notes) == (case.program, case.settings, case.notes)
    loaded.save(tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert open_case(tmp_path / "one", target=Target("reference")).target == Target("reference")


def test_saving_leaves_what_else_lies_in_a_folder_and_no_scratch(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "journal").write_text("kept")
    case = full_case(tmp_path)
    dataclasses.replace(case, notes=()).save(folder)
    own(folder, ["case.json"], is_known=True)
    case.save(folder)
    assert (folder / "journal").read_text() == "kept"
    assert Case.load(folder) == case
    assert not [path for path in [*tmp_path.iterdir(), *folder.iterdir()] if path.name.startswith(SCRATCH)]


def test_a_save_that_fails_leaves_nothing(tmp_path):
    case = full_case(tmp_path)
    lost = dataclasses.replace(case, external=(ExternalFile("w", tmp_path / "gone", 1),))
    with pytest.raises(FileNotFoundError):
        lost.save(tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == ["source"]
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError):
        case.save(tmp_path / "file")


CHANGES: dict[str, Callable[[Case], Case]] = {
    "program": lambda case: dataclasses.replace(case, program=case.program + b"\x32\x00"),
    "value": lambda case: dataclasses.replace(case, inputs={"x": np.ones(1, np.float32)}),
    "dtype": lambda case: dataclasses.replace(case, inputs={"x": np.zeros(1, np.int32)}),
    "shape": lambda case: dataclasses.replace(case, inputs={"x": np.zeros((1, 1), np.float32)}),
    "name": lambda case: dataclasses.replace(case, inputs={"z": np.zeros(1, np.float32)}),
    "sequence": lambda case: dataclasses.replace(case, inputs={"x": [np.zeros(1, np.float32)]}),
    "absent": lambda case: dataclasses.replace(case, inputs={"x": None}),
    "settings": lambda case: dataclasses.replace(case, settings=(("opt", "1"),)),
    "weights": lambda case: dataclasses.replace(case, external=()),
}


def test_case_id_tells_every_content_apart_and_nothing_else(tmp_path):
    case = dataclasses.replace(full_case(tmp_path), inputs={"x": np.zeros(1, np.float32)})
    ids = [case.case_id, *(change(case).case_id for change in CHANGES.values())]
    assert len(set(ids)) == len(ids)
    elsewhere = dataclasses.replace(case, target=None, origin="elsewhere", notes=())
    assert elsewhere.case_id == case.case_id
    assert elsewhere != case


def in_other_words(
    names: str = "x h w b y F n", op: str = "Relu", beta: float = 0.5, weight: float = 1, value: float = 1
) -> Case:
    """A program with a function and bodies, and what may differ."""
    x, h, w, b, y, function, n = names.split()
    branch = f"b () => (float[{n},3] o{h}) {{ o{h} = own.{function} ({h}) }}"
    nodes = f"""{h} = Gemm <alpha = 1.0, beta = {beta}> ({x}, {w}, {b})
        {y} = If (c) <then_branch = {branch}, else_branch = {branch}>"""
    own = f'<opset_import: ["" : 17], domain: "own"> {function} (a) => (r) {{ {h} = {op} (a) r = Neg ({h}) }}'
    weights = {w: np.full((3, 3), weight, np.float32), b: np.zeros(3, np.float32)}
    made = model_of(
        f"g (bool c, float[{n},3] {x}) => (float[{n},3] {y}) {{ {nodes} }} {own}",
        domains="own",
        **(weights if w < b else dict(reversed(weights.items()))),
    )
    made.doc_string = made.graph.node[0].name = names
    inputs = {"c": np.array(True), x: np.full((2, 3), value, np.float32)}
    return Case("onnx", made.SerializeToString(), inputs)


def test_canonical_hash_is_blind_to_names_docs_and_the_order_of_weights():
    one, two = in_other_words(), in_other_words("z k u v x G batch")
    assert one.case_id != two.case_id
    assert one.canonical_hash == two.canonical_hash


@pytest.mark.parametrize("change", [{"op": "Tanh"}, {"beta": 2.0}, {"weight": 0}, {"value": 2}], ids=str)
def test_canonical_hash_sees_operators_attributes_weights_and_inputs(change):
    assert in_other_words(**change).canonical_hash != in_other_words().canonical_hash


def test_inputs_come_from_the_file_the_folder_or_the_seed(tmp_path):
    folder = tmp_path / "case"
    path = write(folder, relu([2]))
    assert np.array_equal(open_case(folder, seed=3).inputs["x"], open_case(path, seed=3).inputs["x"])
    assert not np.array_equal(open_case(folder, seed=3).inputs["x"], open_case(path, seed=4).inputs["x"])
    np.savez(folder / "inputs.npz", x=np.array([5, 6], np.float32))
    np.savez(tmp_path / "other.npz", x=np.array([7, 8], np.float32), extra=np.ones(1))
    assert np.array_equal(open_case(folder).inputs["x"], [5, 6])
    given = open_case(folder, inputs=tmp_path / "other.npz")
    assert np.array_equal(given.inputs["x"], [7, 8])
    assert "extra" in given.notes[0]


def test_onnx_test_data_is_read(tmp_path):
    kinds = [
        value("x", [2]),
        helper.make_tensor_sequence_value_info("s", TensorProto.INT64, None),
        value("t", [2], TensorProto.STRING),
        value("b", [1], TensorProto.BFLOAT16),
    ]
    folder = tmp_path / "case"
    write(folder, identity(kinds))
    data = folder / "test_data_set_0"
    data.mkdir()
    bits = TensorProto(data_type=TensorProto.BFLOAT16, dims=[1], raw_data=b"\x80\x3f")
    items = [
        numpy_helper.from_array(np.array([1, 2], np.float32)),
        numpy_helper.from_list([np.array([1]), np.array([2, 3])]),
        numpy_helper.from_array(np.array(["a", "bc"], object)),
        bits,
    ]
    for index, item in enumerate(items):
        (data / f"input_{index}.pb").write_bytes(item.SerializeToString())
    assert list(open_case(folder, inputs=data / "input_0.pb").inputs) == ["x", "s", "t", "b"]
    inputs = open_case(folder).inputs
    assert np.array_equal(inputs["x"], [1, 2])
    assert [item.tolist() for item in inputs["s"]] == [[1], [2, 3]]
    assert inputs["t"].tolist() == ["a", "bc"]
    assert float(inputs["b"][0]) == 1.0
    open_case(folder).save(tmp_path / "saved")
    assert Case.load(tmp_path / "saved").case_id == open_case(folder).case_id
    (data / "input_3.pb").unlink()
    with pytest.raises(UserError, match="'b'"):
        open_case(folder)


@pytest.mark.parametrize("name", ["script.py", "module.json", "program.pt2"])
def test_a_program_that_runs_code_needs_trust(name, tmp_path):
    path = tmp_path / name
    path.write_text("import torch")
    with pytest.raises(UserError, match="--trust"):
        open_case(path)
    with pytest.raises(UserError, match="crux check"):
        open_case(path, trust=True)
