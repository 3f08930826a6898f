"""The rows of the list of bugs: what kind each is, which part is to blame, and what to do next."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from oracles.naming.signature import Signature
from triage.bugs.standing import COUNTED, KNOWN, READY, UNREDUCED, UNREPORTED

KINDS = {
    "crash": "crash",
    "mismatch": "wrong value",
    "exception": "refusal",
    "timeout": "hang",
    "out-of-memory": "memory",
    "perf": "slow",
}
IMPORTING = "import"
MOST_BLAME = 40
OF_KERNEL = re.compile(r"(?:\w+::)*(\w+)(?:<.*>)?::(?:\1|Compute\w*|PrePack\w*)")
"""A kernel's constructor and methods: they refuse what the optimiser has left, and are no pass."""

OF_BINDING = re.compile(r"onnxruntime\.py ")
"""A frame of Python through which every call goes: it names nothing."""
OF_TYPE = re.compile(r":(?:u?int|float|bfloat|bool|string|complex)\w*")


@dataclass(frozen=True)
class Row:
    """The list's columns for one bug, besides its title."""

    kind: str
    blame: str
    part: str
    step: str


@dataclass(frozen=True)
class Total:
    """One figure above the list: how many bugs are in that state."""

    state: str
    words: str
    count: int


def row_of(facts: Mapping[str, Any], signatures: Sequence[Signature]) -> Row:
    """Return the row of a cluster with these facts and signatures, the last of which knows most."""
    components = dict(signatures[-1].components) if signatures else {}
    outcome = next((str(each["outcome"]) for each in facts["failures"]), components.get("outcome", ""))
    part, blame = _blamed(components)
    return Row(KINDS.get(outcome, outcome), blame, part, _step(facts))


def _blamed(components: Mapping[str, str]) -> tuple[str, str]:
    """Return whether a pass, a kernel or the importer is to blame, and which one."""
    ill_typed = components.get("ill-typed", "").rpartition(" of ")[2]
    if passes := components.get("passes", "") or components.get("rewritten", "") or ill_typed:
        return "pass", _short(passes)
    site = components.get("site", "") or components.get("frame", "") or components.get("frames", "")
    site = "" if OF_BINDING.match(site) else site
    named = components.get("op", "") or OF_TYPE.sub("", components.get("ops", ""))
    name = _short(site.split()[-1].removesuffix("::Apply") if site else named)
    if found := OF_KERNEL.fullmatch(name):
        return "kernel", found[1]
    if components.get("phase") == IMPORTING:
        return "importer", name
    if components.get("side") == "optimised" or components.get("phase") in ("optimise", "codegen"):
        return "pass" if site.endswith("::Apply") else "optimiser", name
    return "kernel", name


def _short(text: str) -> str:
    return text if len(text) <= MOST_BLAME else f"{text[: MOST_BLAME - 1]}…"


def _step(facts: Mapping[str, Any]) -> str:
    """Return a person's next step with a bug."""
    name = facts["id"]
    return {
        READY: f"file its report, then crux triage mark {name} filed URL",
        UNREPORTED: f"crux report {name}",
        KNOWN: "nothing, or a comment on the known issue",
        UNREDUCED: "crux reduce --all",
        "regressed": f"crux report {name}",
        "filed": f"crux triage mark {name} fixed VERSION, once it is",
    }.get(str(facts["state"]), "")


def totals_of(states: Iterable[str]) -> tuple[Total, ...]:
    """The count of each state that occurs, in the order in which to look at them."""
    found = Counter(states)
    order = [*COUNTED, *sorted(found.keys() - COUNTED.keys())]
    return tuple(Total(state, COUNTED.get(state, state), found[state]) for state in order if found[state])
