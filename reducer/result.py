"""What a reduction ends with, and the file that tells it."""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import onnx

from corpus.case import Case
from corpus.errors import UserError
from corpus.format import Measure
from corpus.onnx.graph import walk_nodes
from corpus.reading import SCRATCH, Fields, Text, held_to, members, read_json, write_fresh
from oracles.naming import Signature
from oracles.verdict import Verdict
from reducer.engine.rounds import Step
from reducer.engine.speculation import MoveBenefit
from reducer.pass_sets import PassSet
from reducer.subject.onnx.subject import OnnxSubject


@dataclass(frozen=True, slots=True)
class Point:
    """The size of the smallest failing candidate after a number of checks; bytes without external weights."""

    check: int
    nodes: int
    bytes: int


def kept_nodes(original: onnx.ModelProto, reduced: OnnxSubject) -> tuple[int, ...]:
    """The original's nodes of which something is left, told by the names of what they compute.

    Indices into the original's main graph; a node in a body counts for the node that holds the body. A name
    that two nodes of the main graph use, in bodies of theirs, tells nothing.
    """
    holders = _holders(original.graph)
    names = {reduced.origin(name) for node in walk_nodes(reduced.model.graph) for name in node.output}
    found = {_holder(name, holders) for name in names if name}
    return tuple(sorted(found.difference([-1])))


def _holder(name: str, holders: Mapping[str, int]) -> int:
    """The node that computes a name, or that was unfolded into what does: `node/inner` came out of `node`."""
    while name not in holders and "/" in name:
        name = name.rpartition("/")[0]
    return holders.get(name, -1)


def _holders(graph: onnx.GraphProto) -> Mapping[str, int]:
    """Map each computed tensor to the index of its node in the main graph; -1 if it is ambiguous."""
    found: dict[str, int] = {}
    for index, outer in enumerate(graph.node):
        within = onnx.GraphProto(node=[outer])
        for name in {name for node in walk_nodes(within) for name in node.output if name}:
            found[name] = -1 if name in found else index
    return found


NAME = "reduction.json"

BESIDE = ("repro.py", "reduction.html")
"""What a command adds: the script, and the page."""
MOST_BYTES = 1 << 28
MOST_CHECKS = 100_000_000
_PASS = Text(r"[\w.:,+()<>= -]{1,400}")
_STEP = Fields({"move": Text(), **members("check nodes elements bytes", int)})
_FOUND_ON = members("case target release", Text())
_PASS_SET = Fields(
    members("minimal fired cures", [_PASS])
    | {"checks": int, "level": Text(), "beyond_passes": bool, "unique": bool}
    | _FOUND_ON
)
RESULT = Fields(
    members("nodes_before nodes_after checks", int),
    {
        **{"symptom": str, "minimal": bool},
        **members("bytes_before bytes_after", int),
        **members("function_nodes_before function_nodes_after sweep_checks confirmations", int),
        **members("runs_per_decision pass_checks timeouts cached", int),
        **members("failure_rate seconds", float),
        **members("minimal_in_full private", bool),
        **members("cut_short moves ops", [Text()]),
        **members("passes sequence passes_cures", [_PASS]),
        **{"words_left": [str], "passes_unique": (bool, type(None)), "minimal_covers": Text()},
        "signature": Text(r"[0-9a-f]{0,64}"),
        "kept": [int],
        "steps": [_STEP],
        "curve": [Fields(members("check nodes bytes", int))],
        "asked": {"": Fields(members("asked found run", int))},
        "root": dict,
        "pass_set": (_PASS_SET, Fields()),
    },
)
"""What `reduction.json` holds, and the document of `crux reduce --json`."""
DETAILS = ("kept", "steps", "curve", "asked", "pass_set")
"""What the file tells beyond the document that a command prints."""


NODES = ("nodes_before", "nodes_after", "function_nodes_before", "function_nodes_after")
"""The sizes in a result's document: of main graph and subgraphs, and apart from these of functions."""


def all_nodes(facts: Mapping[str, Any], when: str) -> int:
    """The nodes of a result's document `before` or `after`, those of functions included."""
    return int(facts[f"nodes_{when}"]) + int(facts.get(f"function_nodes_{when}", 0))


@dataclass(frozen=True)
class Reduction:
    """The smallest case, what it shows, and what it took.

    `checks` counts every evaluation of the predicate on any candidate, the first included and cache hits
    not; `sweep_checks` those after the last accepted change, with the `confirmations` by which the result was
    shown again to see whether the failure is steady. `is_minimal` is only set when a full round of
    all `moves` changed nothing. `rate` is the share of runs in which the failure shows; below 1 each decision
    took up to `runs_per_decision` runs. `passes` is None where the target's passes cannot be told apart, or a
    command decided; its checks are not among `checks`. `curve` has a point for every check that left less
    than before it; `kept` are the indices of the original's nodes, main graph, of which something is left.
    `timeouts` counts the evaluations that ran out of time, which is what a hang costs.
    `words_left` is None where nothing had to be hidden, else the original's words that the failure needs.
    `asked` has for each move what it asked and found. `cut_short` are the moves
    that were given up in the last round before they had asked for everything; `subsets` says of how many of
    the subsets of the nodes that are left it is known that they do not fail; `is_asked_again`, that a second
    search in the other order found nothing more. `release` is the one of the
    target's package that was judged; empty where a command decides. `is_shown` says that `verdict` is of runs
    of the case itself, at the end.
    """

    case: Case
    verdict: Verdict | None
    passes: PassSet | None
    signature: Signature | None
    before: Measure
    after: Measure
    checks: int
    sweep_checks: int
    confirmations: int
    cached: int
    seconds: float
    rate: float
    runs_per_decision: int
    is_minimal: bool
    moves: tuple[str, ...]
    steps: tuple[Step, ...]
    curve: tuple[Point, ...] = ()
    kept: tuple[int, ...] = ()
    words_left: tuple[str, ...] | None = None
    timeouts: int = 0
    asked: Mapping[str, MoveBenefit] = field(default_factory=dict)
    cut_short: tuple[str, ...] = ()
    subsets: tuple[int, int] = (0, 0)
    release: str = ""
    is_asked_again: bool = False
    is_shown: bool = False

    @property
    def covers(self) -> str:
        """Say in words what "1-minimal" covers; empty if the result is not minimal."""
        return covered(self.is_minimal, self.cut_short, self.subsets, self.is_asked_again)

    @property
    def is_minimal_in_full(self) -> bool:
        """Whether every search of the last round asked for all it has, every smaller set of nodes too."""
        asked, count = self.subsets
        return self.is_minimal and not self.cut_short and asked == count

    def to_json(self) -> dict[str, Any]:
        """The fields of the command-line contract."""
        return {**self._lasting(), "cached": self.cached, "seconds": round(self.seconds, 3)}

    def save(self, folder: Path) -> None:
        """Write the case and, at last, `reduction.json`: the same bytes for any run of the same reduction."""
        for left_by_a_kill in folder.glob(f"{SCRATCH}*"):
            if left_by_a_kill.is_dir() and not left_by_a_kill.is_symlink():
                shutil.rmtree(left_by_a_kill)
            else:
                left_by_a_kill.unlink()
        self.case.save(folder, replacing=True)
        facts = {
            **self._lasting(),
            "kept": list(self.kept),
            "steps": [asdict(step) for step in self.steps],
            "curve": [asdict(point) for point in self.curve],
            "asked": {name: asdict(each) for name, each in sorted(self.asked.items())},
            "pass_set": self._pass_set(),
        }
        write_fresh(folder / NAME, json.dumps(facts, indent=2) + "\n")

    def _pass_set(self) -> dict[str, Any]:
        """The pass set with what it was found on; empty where there is none."""
        if self.passes is None:
            return {}
        found_on = {
            "case": self.case.relocated.case_id,
            "target": str(self.case.target or ""),
            "release": self.release,
        }
        return {**self.passes.to_json(), **found_on}

    def _lasting(self) -> dict[str, Any]:
        """The fields that depend neither on the machine nor on interruptions."""
        return {
            "nodes_before": self.before.nodes,
            "nodes_after": self.after.nodes,
            "function_nodes_before": self.before.function_nodes,
            "function_nodes_after": self.after.function_nodes,
            "bytes_before": self.before.bytes,
            "bytes_after": self.after.bytes,
            "checks": self.checks,
            "sweep_checks": self.sweep_checks,
            "confirmations": self.confirmations,
            "symptom": str(self.verdict.symptom) if self.verdict else "",
            "signature": self.signature.digest if self.signature else "",
            "minimal": self.is_minimal,
            "minimal_covers": self.covers,
            "minimal_in_full": self.is_minimal_in_full,
            "cut_short": list(self.cut_short),
            "failure_rate": self.rate,
            "runs_per_decision": self.runs_per_decision,
            "moves": list(self.moves),
            "ops": list(self.after.ops),
            "passes": list(self.passes.minimal) if self.passes else [],
            "sequence": list(self.case.passes),
            "passes_unique": self.passes.unique if self.passes else None,
            "passes_cures": list(self.passes.cures) if self.passes else [],
            "pass_checks": self.passes.checks if self.passes else 0,
            "timeouts": self.timeouts,
            **({} if self.words_left is None else {"private": True, "words_left": list(self.words_left)}),
        }


def files_of(case: Case) -> tuple[str, ...]:
    """Name all that a reduction of this case leaves in its folder, besides the journal."""
    return (*case.file_names, NAME, *BESIDE)


def covered(is_minimal: bool, cut_short: Sequence[str], subsets: tuple[int, int], again: bool = False) -> str:
    """Say in words which questions precede the claim of minimality, and which were not asked."""
    if not is_minimal:
        return ""
    parts = ["no single node can go" + (", asked again in another order" if again else "")]
    asked, count = subsets
    if count:
        sets = f"of the {count} smaller sets of its nodes"
        fed = "with everything that can be fed to"
        many = f"{asked} {sets} were asked {fed} them, and do not fail"
        parts.append(many if asked else f"none {sets} was asked {fed} it")
    if cut_short:
        parts.append(f"not asked to the end: {', '.join(sorted(cut_short))}")
    return "; ".join(parts)


def finished(folder: Path) -> Mapping[str, Any] | None:
    """Read `reduction.json` of a finished reduction; None if there is none."""
    path = folder / NAME
    if not os.path.lexists(path):
        return None
    facts = read_result(path)
    return facts if facts.get("minimal") is True else None


def read_result(path: Path) -> dict[str, Any]:
    """Read a `reduction.json`; raises `UserError` where it is none."""
    advice = "remove it, and the reduction goes on"
    return result_of_json(read_json(path, MOST_BYTES, advice), str(path), advice)


BLANK = {
    **dict.fromkeys(("bytes_before", "bytes_after", "function_nodes_before", "function_nodes_after"), 0),
    **{"sweep_checks": 0, "runs_per_decision": 1, "failure_rate": 1.0, "minimal": False, "symptom": ""},
    **{"kept": (), "steps": (), "curve": (), "ops": (), "passes": ()},
}
"""What a page shows of a result that does not say more."""


def result_of_json(document: Any, where: str, advice: str) -> dict[str, Any]:
    """The fields of a result that crux knows; raises `UserError` where one is not as it writes it."""
    found: dict[str, Any] = held_to(document, RESULT, where, advice)
    if max(found["checks"], *(point["check"] for point in found.get("curve", ())), 0) > MOST_CHECKS:
        raise UserError(f"{where}: says that it took over {MOST_CHECKS} checks; {advice}")
    return found
