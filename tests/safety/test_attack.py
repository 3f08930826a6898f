"""An attack by further ways: links in a stranger's folders, hostile names on pages, files that change."""

import json
from pathlib import Path

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.load import open_case
from corpus.target import Target
from reducer.api import reduce_case
from reducer.course import Options
from tests.helpers.commands import completed
from tests.helpers.models import chain_of, external, write
from tests.helpers.pages import Page
from triage.cli import run
from triage.console.output import in_json, quoted
from triage.pages.differences import write_page
from triage.store.database import Store
from triage.views.rendering import as_code, as_fence

SECRET = "a secret of the user's"


def case(*names: str) -> Case:
    """Relu and Erf whose nodes, tensors and graph have such names."""
    first, second, value = (*names, "first", "second", "value")[:3]
    made = chain_of(["Relu", "Erf"])
    made.graph.name, made.graph.node[0].name, made.graph.node[1].name = first, first, second
    made.graph.node[0].output[0] = made.graph.node[1].input[0] = value
    made.graph.node[1].output[0] = made.graph.output[0].name = f"{value}y"
    return Case("onnx", made.SerializeToString(), {"x": np.array([-1, 2], np.float32)}, Target("ort"))


# Links in folders


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text(SECRET)
    return tmp_path / "secret"


NAMES = ["journal.jsonl", "reduction.json", "reduction.html", "case.json", "model.onnx", "inputs.npz"]


@pytest.mark.parametrize(
    "kind", ["symlink", *(pytest.param(each, marks=pytest.mark.slow) for each in ("hard link", "dangling"))]
)
def test_a_reduction_into_a_strangers_folder_writes_nowhere_else(tmp_path, secret, kind):
    """Every file that it writes, and every name that it writes for a moment, is a link there."""
    out = tmp_path / "out"
    out.mkdir()
    for name in NAMES:
        for place in (out / f"{name}.tmp", out / name):
            if kind == "symlink" and place.suffix == ".tmp":
                place.symlink_to(secret)
            elif kind == "hard link" and place.suffix == ".tmp":
                place.hardlink_to(secret)
            elif kind == "dangling" and place.name != "journal.jsonl":
                place.symlink_to(tmp_path / "planted")
    done = reduce_case(case(), out, Options(check="grep -q Erf {}"))
    write_page(out, case())

    assert done.is_minimal
    assert secret.read_text() == SECRET
    assert not (tmp_path / "planted").exists()


def test_weights_do_not_go_through_a_link(tmp_path):
    path = write(tmp_path / "theirs", external("w.bin", 2))
    path.with_name("w.bin").write_bytes(bytes(8))
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "weights").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="is a link"):
        open_case(path).save(tmp_path / "out", replacing=True)
    assert list((tmp_path / "elsewhere").iterdir()) == []


# Names


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</style><script>1</script>",
    "{{ 7*7 }}{% raw %}",
    "```\n# owned\n[x](javascript:alert(1))",
    "\x1b]0;owned\x07\x9b31m\u202egnp",
    "'; DROP TABLE failures; --",
    "$(touch owned)`touch owned`",
]


DEAR = [pytest.param(name, marks=() if name in HOSTILE[1:3] else pytest.mark.slow) for name in HOSTILE]
"""For tests that take longer."""


def must_be_harmless(page: str, scripts: int) -> None:
    found = Page(page)
    assert found.dangers == []
    assert len(found.scripts) <= scripts
    assert not any("alert" in text or "owned" in text for text in found.scripts)


@pytest.mark.parametrize("name", DEAR)
def test_a_name_runs_nothing_on_the_page_of_a_reduction(tmp_path, name):
    found = case(name, f"{name}2", f"{name}3")
    reduce_case(found, tmp_path, Options(check="grep -q Erf {}", max_checks=3))
    write_page(tmp_path, found)
    must_be_harmless((tmp_path / "reduction.html").read_text(), 1)


@pytest.mark.parametrize("name", DEAR)
def test_a_name_runs_nothing_in_pictures_and_stays_a_name_in_the_database(tmp_path, name, capsys):
    case(name).save(tmp_path / "one")
    case(f"{name}!").save(tmp_path / "other")
    words = ["diff", str(tmp_path / "one"), str(tmp_path / "other"), "-o", str(tmp_path / "drawn")]
    assert run(words) in (0, 1)
    for path in (tmp_path / "drawn").glob("*.svg"):
        must_be_harmless(path.read_text(), 0)
    with Store(tmp_path / "crux.db") as store:
        store.add_case(case(name))
        assert store.count("cases") == 1
    assert run(["triage", "--search", name, "--db", str(tmp_path / "crux.db")]) in (0, 2)
    said = capsys.readouterr()
    assert all(sign.isprintable() or sign == "\n" for sign in said.out + said.err)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_cannot_leave_its_place_in_markdown(name):
    inline, block = as_code(name), as_fence(name)
    assert "\n" not in inline
    ticks = len(inline) - len(inline.lstrip("`"))
    assert "`" * ticks not in inline.strip("`")
    first, *lines, last = block.splitlines()
    assert first == last
    assert not any(line.strip().startswith(first) for line in lines)
    assert all(sign.isprintable() or sign in "\n\t" for sign in inline + block)


@pytest.mark.parametrize("name", HOSTILE)
def test_json_steers_no_terminal_and_says_the_same(name):
    text = in_json({"name": name})
    assert text.isprintable()
    assert json.loads(text) == {"name": name}


@pytest.mark.parametrize("name", [*HOSTILE, "--trust", "-o", "a b", "a;b"])
def test_what_a_person_is_to_paste_is_one_word(name):
    word = quoted(name)
    shown = completed(["bash", "-c", f"printf %s {word}"], check=True)
    assert shown.stdout.removeprefix("./") == name
    assert not word.startswith("-")
    assert word.isprintable()


# Where crux is started
