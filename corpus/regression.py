"""The regression corpus: reduced cases of real bugs, each with what it should show on which release."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from corpus.case import CASE_FILE, Case
from corpus.errors import UserError
from corpus.reading import Fields, Text, held_to, read_json, write_fresh

FOLDER = Path(__file__).with_name("regressions")
EXPECTED_FILE = "expected.json"
EXPECTED = Fields({"title": Text(), "package": Text(r"[\w.-]{1,200}"), "shown": {"": [Text()]}})

Shown = tuple[str, str, str]
"""Outcome, phase and kind of a symptom: what stays the same between releases that show one bug."""


@dataclass(frozen=True)
class Regression:
    """A case and what it shows, by release of the package that it was run with; `pass` where it is mended."""

    name: str
    title: str
    case: Case
    package: str
    shown: Mapping[str, Shown] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write the case, and `expected.json` beside it."""
        self.case.save(folder)
        facts = {
            "title": self.title,
            "package": self.package,
            "shown": {release: list(shown) for release, shown in sorted(self.shown.items())},
        }
        text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
        write_fresh(folder / EXPECTED_FILE, text)


def load_regression(folder: Path) -> Regression:
    """Read a folder of the corpus; raises `UserError` where it is not one."""
    path, advice = folder / EXPECTED_FILE, "write it with `crux replay --record`"
    facts = held_to(read_json(path, advice=advice), EXPECTED, str(path), advice)
    if any(len(each) != 3 for each in facts["shown"].values()):
        raise UserError(f"{path}: what is shown is outcome, phase and kind; {advice}")
    shown = {release: (each[0], each[1], each[2]) for release, each in facts["shown"].items()}
    title, package = facts["title"], facts["package"]
    return Regression(folder.name, title, Case.load(folder), package, shown)


def load_regressions(folder: Path = FOLDER) -> Iterator[Regression]:
    """Yield every case of the corpus, by name."""
    for path in sorted(folder.iterdir()):
        if (path / CASE_FILE).is_file():
            yield load_regression(path)
