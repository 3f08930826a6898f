"""What a target has operators and element types for, by its own table and by what it has refused.

A program that holds anything else would be refused: a campaign draws another one in its place. A *form* is an
operator with the element types of its operands and results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from corpus.onnx.graph import walk_nodes
from generators.growth.grow import Program
from generators.language.counts import qualified_name

REFUSALS = Path(__file__).parents[1] / "corpus" / "refusals"
"""What releases were seen to refuse, one file each: `PACKAGE-RELEASE.json`, a list of forms."""
CALLED = "a local function"
"""What tables say instead of an operator's name if a target takes models with functions of their own."""
NAMED = 2
"""How much a refusal counts against the operator that it names; one that names none counts one for each."""


@dataclass(frozen=True, slots=True)
class Legality:
    """The operators of a target's own table, and the forms that its release refuses.

    Without a table (None) every program is allowed.
    """

    operators: frozenset[str] | None = None
    refused: frozenset[str] = frozenset()

    def allows(self, program: object, learned: Set[str] = frozenset()) -> bool:
        """Whether the target has all that an ONNX program holds; programs of other formats are its own."""
        if self.operators is None or not isinstance(program, Program):
            return True
        has_all = all(map(self._has, _operators(program)))
        return has_all and not any(form in self.refused or form in learned for form in forms_of(program))

    def _has(self, name: str) -> bool:
        known = self.operators or frozenset()
        return name in known or f"{name.rpartition('.')[0]}.*" in known


ANYTHING = Legality()


def _operators(program: Program) -> set[str]:
    model = program.model
    local = {function.name for function in model.functions}
    nodes = [*walk_nodes(model.graph), *(node for function in model.functions for node in function.node)]
    called = {CALLED} if local else set()
    return called | {qualified_name(node) for node in nodes if node.op_type not in (*local, "Constant")}


def forms_of(program: object) -> tuple[str, ...]:
    """Return the forms that an ONNX program's main graph holds; of another program, none."""
    if not isinstance(program, Program):
        return ()
    found: dict[str, None] = {}
    for node in program.model.graph.node:
        if node.op_type != "Constant":
            taken, given = _dtypes(node.input, program), _dtypes(node.output, program)
            found[f"{qualified_name(node)}({taken}->{given})"] = None
    return tuple(found)


def _dtypes(names: Iterable[str], program: Program) -> str:
    return ",".join(str(int(program.types[name].dtype)) if name in program.types else "" for name in names)


def blamed(forms: Sequence[str], said: str) -> Mapping[str, int]:
    """Share the blame for a refusal in these words among the forms of a program."""
    words = set(re.findall(r"\w+", said))
    named = [form for form in forms if form.partition("(")[0].rpartition(".")[2] in words]
    return dict.fromkeys(named, NAMED) if named else dict.fromkeys(forms, 1)


def known_refusals(package: str, release: str) -> frozenset[str]:
    """Return the forms that a release was seen to refuse; none for a release that was not looked at."""
    path = REFUSALS / f"{package}-{release}.json"
    return frozenset(json.loads(path.read_text())) if path.is_file() else frozenset()
