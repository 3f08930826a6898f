"""Relax programs of dangerous values: with one thing that an operator may not bear, or not finite.

What TVM owes an endangered program is to survive it. A program of NaN and infinity is a valid one: they enter
only where every operator that they reach says what becomes of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from corpus.case import Case, Remark
from corpus.graphs.program import REF, Binding
from corpus.values import Tensor as Array
from generators.language.values import RandomSource, with_some_nonfinite
from generators.relax.operator import Tensor
from generators.relax.programs import RelaxProgram
from oracles.verdict import SURVIVAL

_ARITHMETIC = (
    *("add", "subtract", "multiply", "divide", "floor_divide", "mod", "floor_mod", "power", "negative"),
    *("abs", "sqrt", "rsqrt", "exp", "log", "tanh", "sigmoid", "nn.relu", "nn.softmax", "maximum", "minimum"),
    *("matmul", "sum", "mean", "max", "min", "prod", "std", "variance", "cumsum", "clip", "round", "floor"),
)
_LOOKS = ("isnan", "isinf", "isfinite", "negative", "abs", "sqrt", "floor", "ceil")
_DEFINED = (
    *_LOOKS,
    *(
        "add",
        "subtract",
        "multiply",
        "divide",
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "where",
    ),
    *("greater_equal", "permute_dims", "reshape", "expand_dims", "squeeze", "concat", "split", "stack"),
    *("broadcast_to", "flip", "flatten", "repeat", "tile", "strided_slice", "tuple", "getitem"),
)
"""Operators that say what becomes of NaN and infinity, or only move their values."""
_MOST_RESULTS = 3
_FLOAT_TYPES = (np.float16, np.float32, np.float64)
_FLOATS = (np.nan, np.inf, -np.inf, -0.0, 0.0, -1.0, 1e30)
_COUNTS = (0, -1, -2, 1, 3, -(2**31))


def endangered(seed: int, made: RelaxProgram) -> Case | None:
    """The case of a program with one thing that may not be borne, which its notes name; None if none fits."""
    draws = RandomSource(f"hazard/{seed}")
    for endanger in draws.sample((_value, _attribute), 2):
        found = endanger(draws, made)
        if found is not None:
            changed, note = found
            return replace(changed.as_case(seed), settings=(SURVIVAL,), notes=(Remark.HAZARD.note(note),))
    return None


def not_finite(seed: int, made: RelaxProgram) -> Case | None:
    """The case of a program with NaN or infinity in an input; None where it has no input of floats.

    Its results are those that the values do not reach, and those that say what becomes of them; an operator
    that looks at them comes last.
    """
    draws, main = RandomSource(f"nonfinite/{seed}"), made.program.main
    names = [name for name, value in made.inputs.items() if value.size and value.dtype in _FLOAT_TYPES]
    if not names:
        return None
    name = draws.pick(names)
    reached = _reached(made, name)
    defined = [each for each in _defined(made, reached) if isinstance(made.types.get(each), Tensor)]
    apart = [each for each in main.outputs if each not in reached and each != name]
    look = Binding(
        "nonfinite", f"relax.{draws.pick(_LOOKS)}", ({REF: draws.pick([name, *_floats(made, defined)])},)
    )
    outputs = dict.fromkeys([*apart, *defined[-_MOST_RESULTS:], look.name])
    changed = replace(main, bindings=(*main.bindings, look), outputs=tuple(outputs))
    value = with_some_nonfinite(draws, made.inputs[name])
    return _with_input(replace(made, program=replace(made.program, main=changed)), name, value).as_case(seed)


def _floats(made: RelaxProgram, names: list[str]) -> list[str]:
    types = {name: made.types[name] for name in names}
    return [name for name, each in types.items() if isinstance(each, Tensor) and each.is_float]


def _reached(made: RelaxProgram, name: str) -> Mapping[str, str]:
    """The bindings of main that a value of an input reaches, with their operators."""
    reached: dict[str, str] = {}
    for binding in made.program.main.bindings:
        if any(each == name or each in reached for each in binding.reads):
            reached[binding.name] = binding.op.removeprefix("relax.")
    return reached


def _defined(made: RelaxProgram, reached: Mapping[str, str]) -> list[str]:
    """Those of the bindings reached that it reaches by operators alone which say what becomes of it."""
    open_ones: set[str] = set()
    for binding in made.program.main.bindings:
        if binding.name in reached and (
            reached[binding.name] not in _DEFINED or open_ones.intersection(binding.reads)
        ):
            open_ones.add(binding.name)
    return [each for each in reached if each not in open_ones]


def _value(draws: RandomSource, made: RelaxProgram) -> tuple[RelaxProgram, str] | None:
    """A dangerous value where arithmetic alone reads it: an index out of range is the program's own fault."""
    for name in draws.sample(tuple(made.inputs), len(made.inputs)):
        value, reached = made.inputs[name], _reached(made, name)
        if value.size and value.dtype.kind in "fiu" and reached and {*reached.values()} <= {*_ARITHMETIC}:
            special: Any = _FLOATS if value.dtype.kind == "f" else _ends(value.dtype)
            chosen, changed = draws.pick(special), value.copy()
            changed.reshape(-1)[draws.below(value.size)] = chosen
            return _with_input(made, name, changed), f"{chosen} in {name}"
    return None


def _ends(dtype: np.dtype[Any]) -> tuple[int, ...]:
    return (0, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


def _attribute(draws: RandomSource, made: RelaxProgram) -> tuple[RelaxProgram, str] | None:
    """A count, an axis or a size that may be none."""
    bindings = made.program.main.bindings
    for place, binding in draws.sample(tuple(enumerate(bindings)), len(bindings)):
        held: tuple[str, Mapping[str, Any]] = binding.kwargs.get("attributes", ("", {}))
        keys = [key for key, value in held[1].items() if _is_count(value)]
        if keys:
            key, wrong = draws.pick(keys), draws.pick(_COUNTS)
            value = [wrong, *held[1][key][1:]] if isinstance(held[1][key], list) else wrong
            changed = {**binding.kwargs, "attributes": [held[0], {**held[1], key: value}]}
            main = [*bindings[:place], replace(binding, kwargs=changed), *bindings[place + 1 :]]
            return _with_bindings(made, main), f"{key} of {wrong} of {binding.op.removeprefix('relax.')}"
    return None


def _is_count(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, int) and not isinstance(first, bool)


def _with_bindings(made: RelaxProgram, bindings: list[Binding]) -> RelaxProgram:
    main = replace(made.program.main, bindings=tuple(bindings))
    return replace(made, program=replace(made.program, main=main))


def _with_input(made: RelaxProgram, name: str, value: Array) -> RelaxProgram:
    return replace(made, inputs={**made.inputs, name: value})
