"""What a target has operators and element types for, by its own table and by what it has refused.

A program that holds anything else would be refused: a campaign draws another one in its place. A *form* is an
operator with the element types of its operands and results.
"""

import json
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from corpus.onnx.types import dtype_name
from generators.language.emit import Made, language_of

REFUSALS = Path(__file__).parents[1] / "corpus" / "refusals"
"""What releases were seen to refuse, one file each: `PACKAGE-RELEASE.json`, a list of forms."""
CALLED = "a local function"
"""What tables say instead of an operator's name if a target takes models with functions of their own."""
NAMED = 2
"""How much a refusal counts against the operator that it names; one that names none counts one for each."""


@dataclass(frozen=True, slots=True)
class Legality:
    """The operators of a target's own table, the forms that its release refuses, and dtypes that it lacks.

    Without a table (None) every program is allowed.
    """

    operators: frozenset[str] | None = None
    refused: frozenset[str] = frozenset()
    lacks: frozenset[str] = frozenset()

    def allows(self, program: Made, learned: Set[str] = frozenset()) -> bool:
        """Whether the target has all that a program holds."""
        if self.operators is None:
            return True
        has_all = all(map(self._has, language_of(program.format).operators(program)))
        return has_all and not any(self._refuses(form, learned) for form in forms_of(program))

    def _refuses(self, form: str, learned: Set[str]) -> bool:
        dtypes = re.findall(r"\d+", form.rpartition("(")[2]) if self.lacks else []
        lacking = any(dtype_name(int(each)) in self.lacks for each in dtypes)
        return lacking or form in self.refused or form in learned

    def _has(self, name: str) -> bool:
        known = self.operators or frozenset()
        return name in known or f"{name.rpartition('.')[0]}.*" in known


ANYTHING = Legality()


def forms_of(program: Made) -> tuple[str, ...]:
    """The forms that a program holds; none of one whose language has no such table."""
    return language_of(program.format).forms(program)


def blamed(forms: Sequence[str], said: str) -> Mapping[str, int]:
    """Share the blame for a refusal in these words among the forms of a program."""
    words = set(re.findall(r"\w+", said))
    named = [form for form in forms if form.partition("(")[0].rpartition(".")[2] in words]
    return dict.fromkeys(named, NAMED) if named else dict.fromkeys(forms, 1)


def known_refusals(package: str, release: str) -> frozenset[str]:
    """The forms that a release was seen to refuse; none for a release that was not looked at."""
    path = REFUSALS / f"{package}-{release}.json"
    return frozenset(json.loads(path.read_text())) if path.is_file() else frozenset()
