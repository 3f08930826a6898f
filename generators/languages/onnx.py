"""ONNX models, to what generates them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod

import numpy as np
import onnx

from corpus.case import Case
from corpus.errors import UserError
from corpus.onnx.graph import walk_all_graphs, walk_nodes
from generators.disrupt import leave_shapes_open
from generators.growth.grow import Program
from generators.language.emit import Language
from generators.language.profile import Budget, qualified_name
from generators.language.values import RandomSource
from generators.legality import CALLED
from generators.modes import Mode, in_mode
from generators.strategies.coverage import Seen
from generators.strategies.mutate import mutate
from oracles.verdict import AGREEMENT


def _mutated(program: Program, seed: int, case: Case) -> Case:
    """Leave shapes open: what was declared may not hold for a mutant, whose runs are to agree."""
    if case.settings:
        return case
    leave_shapes_open(program.model.graph)
    return replace(program.as_case(seed), settings=(AGREEMENT,))


_SHARE, _MOST_RUNS, _MOST_ELEMENTS = 0.8, 3, 20_000
"""How many programs with symbolic dims run several times, how often before, and how large inputs get."""
_CHANGED = (1, 1, 1, 2)
"""How many dims have another size at once: half of the changes of one fit the program, and 31 % of all."""


def _called_again(program: Program, seed: int, case: Case) -> Case:
    """Each earlier run has other sizes of some dims; one that they do not fit may be refused.

    No result is declared with the sizes of the run that counts.
    """
    shapes = (info.type.tensor_type.shape for info in program.model.graph.input)
    names = sorted({dim.dim_param for shape in shapes for dim in shape.dim} - {""})
    draws = RandomSource(f"earlier/{seed}")
    if case.settings or not names or not draws.chance(_SHARE):
        return case
    runs = [
        {name: draws.extent() for name in draws.sample(names, min(draws.pick(_CHANGED), len(names)))}
        for _ in range(draws.between(1, _MOST_RUNS))
    ]
    _leave_dims_open(program.model)
    found = replace(program.as_case(seed), notes=case.notes)
    made = zip(runs, found.with_earlier(runs).earlier_shapes, strict=True)
    fitting = [sizes for sizes, shapes in made if max(map(prod, shapes.values())) <= _MOST_ELEMENTS]
    return found.with_earlier(fitting) if fitting else case


def _leave_dims_open(model: onnx.ModelProto) -> None:
    """Of all that is declared but the inputs: a compiler may count on what is declared."""
    main, *bodies = walk_all_graphs(model)
    declared = [*main.output, *main.value_info]
    declared += [info for body in bodies for info in (*body.input, *body.output, *body.value_info)]
    kinds = [info.type for info in declared]
    for kind in kinds:
        inner = getattr(kind, kind.WhichOneof("value"))
        if kind.HasField("tensor_type"):
            for dim in inner.shape.dim:
                dim.Clear()
        else:
            kinds.append(inner.elem_type)


def _mutant(given: Case, seed: int, nodes: int, budget: Budget) -> Program:
    inputs = {name: value for name, value in given.inputs.items() if isinstance(value, np.ndarray)}
    if given.external or len(inputs) < len(given.inputs):
        raise UserError(f"{given.origin}: to mutate, name an ONNX model of tensors without external data")
    draws = RandomSource(f"mutate/{seed}/{nodes}")
    return mutate(onnx.ModelProto.FromString(given.program), inputs, draws, budget)


def _operators(program: Program) -> set[str]:
    model = program.model
    local = {function.name for function in model.functions}
    nodes = [*walk_nodes(model.graph), *(node for function in model.functions for node in function.node)]
    called = {CALLED} if local else set()
    return called | {qualified_name(node) for node in nodes if node.op_type not in (*local, "Constant")}


def _forms(program: Program) -> tuple[str, ...]:
    """The forms that the main graph holds."""
    found: dict[str, None] = {}
    for node in program.model.graph.node:
        if node.op_type != "Constant":
            taken, given = _dtypes(node.input, program), _dtypes(node.output, program)
            found[f"{qualified_name(node)}({taken}->{given})"] = None
    return tuple(found)


def _dtypes(names: Iterable[str], program: Program) -> str:
    return ",".join(str(int(program.types[name].dtype)) if name in program.types else "" for name in names)


def _coverage(program: Program) -> Mapping[str, int]:
    seen = Seen()
    seen.add(program)
    return seen.counts


_MODES: dict[str, float] = {Mode.DISRUPTIVE: 0.04, Mode.VULNERABLE: 0.25, Mode.NONFINITE: 0.08}
"""Most causes for the time have programs with one thing changed: each operator has its own hazards."""

LANGUAGE = Language(
    in_mode=in_mode,
    mutated=_mutated,
    called_again=_called_again,
    mutant=_mutant,
    operators=_operators,
    forms=_forms,
    coverage=_coverage,
    modes=_MODES,
    comes_small=True,
    searches_inputs=True,
)
