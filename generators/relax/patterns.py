"""A pattern of a pass put into a program that grows (OATest §3.2): its operands are values of its types.

An operand is a value in scope or a new one; what the pattern gives may be read by all that grows later,
patterns of other passes included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from corpus.errors import UserError
from corpus.graphs.format import symbols
from corpus.graphs.names import renamed
from corpus.graphs.pattern import GraphPattern
from corpus.graphs.program import Binding, GraphProgram, Input, graph_to_json
from generators.relax.costs import TooLarge, depths_of
from generators.relax.finishing import APART, TOGETHER
from generators.relax.growing import Growth
from generators.relax.leaves import new_input
from generators.relax.operator import ANY, Want, Within
from generators.relax.types import Tensor, concrete
from generators.relax.watched import Unsound


def place_pattern(growth: Growth) -> str:
    """Put one in: the pass is drawn first, so that each is as likely; gives its name."""
    patterns = growth.policy.patterns
    fires = growth.draws.pick(sorted(patterns))
    pattern = growth.draws.pick(patterns[fires])
    program = renamed(pattern.program, {name: growth.fresh("q") for name in sorted(pattern.program.names)})
    for graph in program.functions.values():
        if not growth.budget.reaches(max(depths_of(graph.bindings, {}).values(), default=0)):
            raise TooLarge(fires)
    main = growth.main
    spans = [_within(pattern, item.name) for item in pattern.program.main.inputs]
    _bind_symbols(growth, program)
    wants = [Want(_tensor(item), span) for item, span in zip(program.main.inputs, spans, strict=True)]
    operands = [growth.grow(main, want.type, want.within) for want in wants]
    names = {item.name: operand.name for item, operand in zip(program.main.inputs, operands, strict=True)}
    growth.constants.update(program.constants)
    growth.functions.update({name: graph_to_json(graph) for name, graph in program.functions.items()})
    growth.opaque.update(program.told_outside)
    types = {new: pattern.types.get(old) for old, new in _renaming(pattern, program).items()}
    is_apart = not any("block" in each.kwargs for each in pattern.program.main.bindings)
    bindings = renamed(program, names).main.bindings
    for binding in bindings:
        _bind(growth, binding, types, {APART: True} if is_apart else {TOGETHER: bindings[0].name})
    known = {each.name for each in main.known}
    growth.results += [name for name in program.main.outputs if name in known]
    return fires


def _within(pattern: GraphPattern, name: str) -> Within:
    """The bounds of an input's values, from the program that the pattern was taken out of."""
    low, high = pattern.ranges.get(name, (0.0, 0.0))
    return Within(low, high, is_nonzero=low > 0 or high < 0)


def _bind_symbols(growth: Growth, program: GraphProgram) -> None:
    """An input for each symbolic dim of the pattern that the program does not have yet."""
    main = growth.main
    for name in symbols(item.shape for item in program.main.inputs):
        if name not in main.symbols:
            main.symbols.append(name)
            main.sizes[name] = growth.draws.between(2, 4)
            new_input(growth, main, Tensor("float32", (name,)), ANY)


def _tensor(item: Input) -> Tensor:
    """The type of an input; TooLarge for one that is no tensor."""
    dims = tuple(dim for dim in item.shape if dim is not None)
    if len(dims) < len(item.shape) or item.declared is not None:
        raise TooLarge(item.name)
    return Tensor(item.dtype, dims)


def _bind(growth: Growth, binding: Binding, types: Mapping[str, Any], apart: Mapping[str, Any]) -> None:
    """Add one binding of the pattern and run it.

    If it gives a tensor of known dims, later growth may read it.
    """
    run, frame = growth.run(), growth.main
    kwargs = {key: item for key, item in binding.kwargs.items() if key != "block"}
    known = {**run.constants, **frame.values(), **growth.hidden}
    try:
        value = run.value(binding.name, binding.op, list(binding.args), kwargs, known, frame.all_sizes())
    except (ArithmeticError, LookupError, ValueError) as error:  # operands that the operator does not take
        raise Unsound(str(error)) from error
    args = list(binding.args)
    growth.pay(binding.op, [known[each] for each in binding.reads if each in known], value, run.inside)
    growth.depths.update(depths_of((binding,), growth.depths))
    growth.place(binding.name, binding.op, args)
    frame.bindings.append([binding.name, binding.op, args, {**kwargs, **apart}])
    told = types.get(binding.name)
    if told is not None and _has_shape(value, told[1], frame.all_sizes()):
        growth.know(frame, binding.name, Tensor(told[0], tuple(told[1])), value)
    else:
        growth.hidden[binding.name] = value


def _has_shape(value: Any, dims: Any, sizes: Mapping[str, int]) -> bool:
    """Whether a value's dims are these, at the sizes that symbols have."""
    try:
        return isinstance(value, np.ndarray) and concrete(tuple(dims), sizes) == value.shape
    except UserError:  # a symbol that is not there
        return False


def _renaming(pattern: GraphPattern, program: GraphProgram) -> dict[str, str]:
    """Map the names of a pattern's bindings to their new names."""
    pairs = zip(pattern.program.main.bindings, program.main.bindings, strict=True)
    return {old.name: new.name for old, new in pairs}
