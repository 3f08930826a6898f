"""The `next:` lines of the commands: each works when it is pasted, with the options that were given."""

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.commands import crux
from tests.helpers.failing import division_crash
from triage.console.options import CaseOptions, StoreOptions, next_command

NEXT = re.compile(r"next: (?:file .* then: )?crux (.*?)(?:, if they are one bug)?$", re.MULTILINE)
SHORT = re.compile(r"check|reduce|report|triage(?! merge)")
"""Neither a hunt nor a decision of a person."""


def test_a_next_command_has_the_options_of_this_one():
    given = CaseOptions(db=Path("my db"), json=True, target="ort", jobs=2, trust=True, rtol=0.1, dims="N=2")
    text = next_command("reduce x -o y", given, known="k.toml")
    assert shlex.split(text) == [
        *["crux", "reduce", "x", "-o", "y", "--db"],
        "my db",
        *["--dims", "N=2", "--target", "ort", "--jobs", "2", "--rtol", "0.1", "--trust", "--known", "k.toml"],
    ]
    assert next_command("triage", StoreOptions(usual_database=Path("other.db"))) == "crux triage"
    assert next_command("triage", replace(given, db=None, quiet=True)).endswith("--trust")


@pytest.mark.slow
def test_each_next_line_can_be_pasted(tmp_path):
    division_crash().save(tmp_path / "a case")
    (tmp_path / "k.toml").write_text("")
    waiting = [
        "check 'a case' --db 'my db' --timeout 30 --target ort",
        "reduce --all --db 'my db' --timeout 30",
    ]
    waiting += ["triage --db 'my db' --known k.toml", "triage why C0001 C0001 --db 'my db'"]
    ran: list[str] = []
    while waiting:
        words = waiting.pop(0)
        done = crux(tmp_path, *shlex.split(words))
        assert done.returncode in (0, 1), (words, done.stderr)
        ran.append(words)
        waiting += [each for each in NEXT.findall(done.stderr) if each not in ran and SHORT.match(each)]
    assert "reduce 'a case' -o crux-small --db 'my db' --target ort --timeout 30.0" in ran
    assert "report crux-small -o crux-report --db 'my db' --target ort --timeout 30.0" in ran
    assert "report C0001 --db 'my db' --known k.toml" in ran
    assert "triage merge C0001 C0001 --db 'my db'" not in ran
