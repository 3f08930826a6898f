"""Faults of an optimiser in a case: which there are, whether they show, and whether a name tells one."""

import os
import random
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest

from corpus.case import Case
from corpus.load import open_case
from corpus.target import Target
from corpus.values import Value
from oracles.judge import Judge
from tests.helpers.planting import plant_optimiser

OF_A_KIND = 2
"""Faults of one kind in one model."""

VISIBLE, VISIBLE_HALF, TIMES = 3e-4, 2e-2, 50.0
"""A fault shows if it moves a result by this part of the greatest, and so many times what rounding does."""

PLAIN = 0.05
"""The least part of the greatest result that a fault has to move to be worth a reduction."""


@dataclass(frozen=True)
class Fault:
    """One fault in one case: the plan for the wrong optimiser, the nodes that it changes, what it moves."""

    plan: Mapping[str, Any]
    nodes: tuple[onnx.NodeProto, ...]
    relative: float

    def __str__(self) -> str:
        return f"{self.plan['kind']} {self.nodes[0].op_type} {self.relative:.3g}"


@dataclass
class Planter:
    """Puts faults into a judge's optimised runs: the one planned, None for none."""

    judge: Judge
    wrong: ModuleType
    plan: Mapping[str, Any] | None = None

    def change(self, model: onnx.ModelProto) -> None:
        """Make of a model what the optimiser gets of it."""
        if self.plan is not None:
            self.wrong.apply(model, self.plan)

    def faults(
        self,
        case: Case,
        *,
        every: bool,
        seed: int = 5,
        of_a_kind: int = OF_A_KIND,
        only: tuple[str, ...] = (),
    ) -> Iterator[Fault]:
        """The faults that show, in an order of chance; each is planted until the next one is asked for.

        `every`: in every node of an operator, and plain enough to be reduced.
        """
        plain = self._outputs(case, 0)
        rounding, greatest = apart(plain, self._outputs(case, 1)) if plain else (np.inf, 0.0)
        if not rounding <= 1e-3 * max(greatest, 1e-9):
            return
        seen: Counter[str] = Counter()
        options = list(self.wrong.options(case.parsed))
        random.Random(f"{seed}/{case.canonical_hash}").shuffle(options)
        for kind, at in options:
            if only and kind not in only:
                continue
            if seen[kind] < of_a_kind and not (every and kind in ("weight", "row")):
                fault = self._shown(case, kind, at, every, plain, rounding, greatest)
                if fault is not None:
                    seen[kind] += 1
                    yield fault
                self.plan = None

    def _shown(
        self,
        case: Case,
        kind: str,
        at: int,
        every: bool,
        plain: Mapping[str, Value],
        rounding: float,
        greatest: float,
    ) -> Fault | None:
        graph = case.parsed.graph
        node = graph.node[at]
        plan = {
            "kind": kind,
            **({"every": node.op_type} if every else {"node": at, "nodes": len(graph.node)}),
        }
        self.plan = plan
        moved = apart(plain, self._outputs(case, 1))[0]
        is_half = any(each.data_type == onnx.TensorProto.FLOAT16 for each in graph.initializer)
        least = max((VISIBLE_HALF if is_half else VISIBLE) * greatest, TIMES * rounding)
        if not moved > least or (every and moved < PLAIN * greatest):
            return None
        return Fault(plan, _changed(graph, plan, node), moved / max(greatest, 1e-12))

    def _outputs(self, case: Case, way: int) -> Mapping[str, Value]:
        (run,) = self.judge.runs(case, self.judge.configs[way : way + 1])
        return run.outputs if run.is_ok else {}


@contextmanager
def planting(wrong: ModuleType) -> Iterator[Planter]:
    """A planter whose judge's optimised runs have the faults of a module that lists them."""
    with Judge(Target("ort")) as judge, pytest.MonkeyPatch.context() as patch:
        planter = Planter(judge, wrong)
        plant_optimiser(judge, patch, planter.change)
        yield planter


def zoo_cases(folder: Path, names: Container[str], *, exported: bool = False) -> Iterator[tuple[str, Case]]:
    """Models of the zoo with their names: these, or all; `CRUX_SEEDED_ZOO` is a folder to keep them in."""
    pytest.importorskip("onnxscript")
    from tests.zoo.models import ZOO, build

    for entry in ZOO:
        if (not names or entry.name in names) and (entry.net is not None or not exported):
            yield entry.name, open_case(build(entry, Path(os.environ.get("CRUX_SEEDED_ZOO", folder))))


def _changed(
    graph: onnx.GraphProto, plan: Mapping[str, Any], node: onnx.NodeProto
) -> tuple[onnx.NodeProto, ...]:
    """The nodes that a plan changes, the one that it names first: of a weight all that read it."""
    others = [
        each
        for each in graph.node
        if each is not node
        and (
            each.op_type == plan.get("every")
            or (plan["kind"] in ("weight", "row") and node.input[1] in each.input)
        )
    ]
    return (node, *others)


def apart(left: Mapping[str, Value], right: Mapping[str, Value]) -> tuple[float, float]:
    """How far results are apart at most, and how great they are; nothing if one of two runs has none."""
    most = greatest = 0.0
    for name, value in left.items():
        other = right.get(name)
        if not isinstance(value, np.ndarray) or not isinstance(other, np.ndarray):
            return (0.0, 0.0) if other is None else (np.inf, 1.0)
        if value.shape != other.shape:
            return np.inf, 1.0
        if value.dtype.kind not in "biuf":
            continue
        one, two = value.astype(np.float64), other.astype(np.float64)
        if (np.isnan(one) != np.isnan(two)).any():
            return np.inf, 1.0
        with np.errstate(invalid="ignore"):
            most = max(most, float(np.nanmax(np.abs(one - two), initial=0)))
        greatest = max(greatest, float(np.nanmax(np.abs(one), initial=0)))
    return most, greatest


def tells(tensor: str, fault: Fault, case: Case, optimised: Callable[[], onnx.ModelProto | None]) -> str:
    """`node` if a changed node makes a tensor, `fusion` if what that was merged into does; else empty."""
    made = {name for node in fault.nodes for name in node.output}
    if tensor in made:
        return "node"
    program = optimised()
    left = {name for node in program.graph.node for name in node.output} if program is not None else set()
    return "fusion" if tensor in _first_left(made - left, case.parsed.graph, left) else ""


def _first_left(gone: set[str], graph: onnx.GraphProto, left: set[str]) -> set[str]:
    """The first tensors after those that are gone that an optimiser has left."""
    found, seen = set[str](), set(gone)
    for node in graph.node:  # in topological order
        if not seen.isdisjoint(node.input):
            found |= {name for name in node.output if name in left}
            seen |= {name for name in node.output if name not in left}
    return found
