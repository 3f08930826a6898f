"""Relax programs that are incorrect, each with one violation, which is named; and those of dangerous values.

What a compiler owes an incorrect program is a clean diagnostic: a crash, or a result, is the bug. What TVM
owes an endangered one, with a value that an operator may not bear, is to survive it. A program of NaN and
infinity is a valid one: they enter only where every operator that they reach says what becomes of them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from corpus.case import Case, Remark
from corpus.graphs.program import REF, Binding, GraphProgram, Input
from corpus.values import Tensor as Array
from generators.language.values import RandomSource, with_some_nonfinite
from generators.relax.operator import Json, Tensor, Type
from generators.relax.programs import RelaxProgram
from oracles.numerics.rewrites import overwritten
from oracles.verdict import REFUSAL, SURVIVAL

_PAIRS = frozenset(f"relax.{name}" for name in ("add", "subtract", "multiply", "divide", "maximum", "less"))
_RANKED = ("relax.nn.conv", "relax.nn.max_pool", "relax.nn.avg_pool", "relax.nn.batch_norm", "relax.image.")
_SIZES = ("strides", "dilation", "pool_size", "padding", "output_size", "groups", "num_groups")
_STRAY = "stray"
"""The name of the input that a violation adds."""


@dataclass
class Breaking:
    """A program that is being broken; `binding` is where."""

    draws: RandomSource
    program: GraphProgram
    types: Mapping[str, Type]
    binding: Binding
    stray: tuple[Input, Array] | None = None

    def tensor(self, place: int) -> Tensor | None:
        """The type of an operand, if it is a tensor of known sizes."""
        item = self.binding.args[place] if place < len(self.binding.args) else None
        told = self.types.get(item[REF]) if isinstance(item, dict) and set(item) == {REF} else None
        return told if isinstance(told, Tensor) and told.is_static else None

    def stray_input(self, dtype: str, shape: Sequence[int]) -> Json:
        """A reference to a further input of this type."""
        self.stray = Input(_STRAY, dtype, tuple(shape)), np.zeros(shape, dtype)
        return {REF: _STRAY}

    def with_argument(self, place: int, item: Json) -> Binding:
        """The binding with another argument."""
        args = (*self.binding.args[:place], item, *self.binding.args[place + 1 :])
        return replace(self.binding, args=args)

    def with_attribute(self, key: str, wrong: int) -> Binding:
        """The binding with another value of an attribute, or of the first element that it holds."""
        return _with_attribute(self.binding, key, wrong)

    @property
    def attributes(self) -> Mapping[str, Json]:
        """The attributes by name."""
        told: Mapping[str, Json] = self.binding.kwargs.get("attributes", ["", {}])[1]
        return told


def _with_attribute(binding: Binding, key: str, wrong: int) -> Binding:
    kind, told = binding.kwargs["attributes"]
    value = [wrong, *told[key][1:]] if isinstance(told[key], list) else wrong
    return replace(binding, kwargs={**binding.kwargs, "attributes": [kind, {**told, key: value}]})


Violate = Callable[[Breaking], tuple[Binding, str] | None]


def _shapes(at: Breaking) -> tuple[Binding, str] | None:
    """Return two operands of which no dim is one, and which differ."""
    told = at.tensor(0) if at.binding.op in _PAIRS else None
    if told is None or not told.rank or not any(dim not in (0, 1) for dim in told.shape):
        return None
    shape = [int(dim) + (dim not in (0, 1)) for dim in told.shape]
    return at.with_argument(1, at.stray_input(told.dtype, shape)), "operands whose shapes do not broadcast"


def _dtypes(at: Breaking) -> tuple[Binding, str] | None:
    told = at.tensor(0) if at.binding.op in _PAIRS else None
    if told is None:
        return None
    other = "int32" if told.is_float else "float32"
    shape = [int(dim) for dim in told.shape]
    return at.with_argument(1, at.stray_input(other, shape)), "operands of different dtypes"


def _contraction(at: Breaking) -> tuple[Binding, str] | None:
    told = at.tensor(1) if at.binding.op == "relax.matmul" else None
    if told is None or told.rank < 2:
        return None
    shape = [int(dim) for dim in told.shape]
    shape[-2] += 1
    return at.with_argument(1, at.stray_input(told.dtype, shape)), "a product of sizes that do not fit"


def _rank(at: Breaking) -> tuple[Binding, str] | None:
    told = at.tensor(0) if at.binding.op.startswith(_RANKED) else None
    if told is None or told.rank < 2:
        return None
    shape = [int(dim) for dim in told.shape[1:]]
    return at.with_argument(0, at.stray_input(told.dtype, shape)), "an operand of too low a rank"


def _axis(at: Breaking) -> tuple[Binding, str] | None:
    key = next((key for key in ("axis", "axes") if at.attributes.get(key) not in (None, [])), None)
    if key is None:
        return None
    wrong = at.draws.pick((9, -9))
    return at.with_attribute(key, wrong), f"an axis of {wrong}"


def _size(at: Breaking) -> tuple[Binding, str] | None:
    keys = [key for key in _SIZES if at.attributes.get(key)]
    if not keys:
        return None
    key, wrong = at.draws.pick(keys), at.draws.pick((0, -1))
    wrong = -99 if key == "padding" else wrong
    return at.with_attribute(key, wrong), f"{key} of {wrong}"


def _arity(at: Breaking) -> tuple[Binding, str] | None:
    if at.binding.op != "call" or len(at.binding.args) < 2:
        return None
    if at.draws.chance(0.5):
        return replace(at.binding, args=at.binding.args[:-1]), "a call with one argument less"
    return replace(at.binding, args=(*at.binding.args, at.binding.args[-1])), "a call with one argument more"


def _field(at: Breaking) -> tuple[Binding, str] | None:
    if at.binding.op != "getitem":
        return None
    wrong = at.draws.pick((7, -1))
    return at.with_argument(1, wrong), f"field {wrong} of a tuple"


def _cast(at: Breaking) -> tuple[Binding, str] | None:
    told = at.tensor(0) if at.binding.op == "match_cast" else None
    if told is None:
        return None
    if at.draws.chance(0.5) and told.rank:
        shape = [int(told.shape[0]) + 1, *told.shape[1:]]
        return at.with_argument(1, {"tensor": [told.dtype, shape, told.rank]}), "a cast to other sizes"
    other = "int32" if told.is_float else "float32"
    return at.with_argument(1, {"tensor": [other, list(told.shape), told.rank]}), "a cast to another dtype"


VIOLATIONS: tuple[Violate, ...] = (
    *(_shapes, _dtypes, _contraction, _rank, _axis, _size, _arity, _field, _cast),
)


def violated(seed: int, made: RelaxProgram) -> Case | None:
    """The case of a program with one violation in main, which its notes name; None if none fits it."""
    draws = RandomSource(f"violation/{seed}")
    bindings = made.program.main.bindings
    for place, binding in draws.sample(tuple(enumerate(bindings)), len(bindings)):
        for violate in draws.sample(VIOLATIONS, len(VIOLATIONS)):
            at = Breaking(draws, made.program, made.types, binding)
            found = violate(at)
            if found is not None:
                return _case(seed, made, place, at, *found)
    return None


def _case(seed: int, made: RelaxProgram, place: int, at: Breaking, broken: Binding, note: str) -> Case:
    main = made.program.main
    inputs, feeds = main.inputs, dict(made.inputs)
    if at.stray is not None:
        inputs, feeds[_STRAY] = (*inputs, at.stray[0]), at.stray[1]
    bindings = (*main.bindings[:place], broken, *main.bindings[place + 1 :])
    program = replace(made.program, main=replace(main, inputs=inputs, bindings=bindings))
    where = f"{note} of {broken.op.removeprefix('relax.')}"
    notes = (Remark.VIOLATION.note(where),)
    return Case("relax", program.to_bytes(), feeds, settings=(REFUSAL,), origin=f"seed:{seed}", notes=notes)


_ARITHMETIC = (
    *("add", "subtract", "multiply", "divide", "floor_divide", "mod", "floor_mod", "power", "negative"),
    *("abs", "sqrt", "rsqrt", "exp", "log", "tanh", "sigmoid", "nn.relu", "nn.softmax", "maximum", "minimum"),
    *("matmul", "sum", "mean", "max", "min", "prod", "std", "variance", "cumsum", "clip", "round", "floor"),
)
_LOOKS = ("isnan", "isinf", "isfinite", "negative", "abs", "sqrt", "floor", "ceil")
_DEFINED = (
    *_LOOKS,
    *("add", "subtract", "multiply", "divide", "where"),
    *("equal", "not_equal", "less", "less_equal", "greater"),
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
    gone = frozenset().union(*map(overwritten, main.bindings))
    kept = [each for each in _reached(made, name, _DEFINED) if each not in gone]
    defined = [each for each in kept if isinstance(made.types.get(each), Tensor)]
    apart = [each for each in main.outputs if each not in reached and each != name]
    operator, read = draws.pick(_LOOKS), draws.pick([name, *_floats(made, defined)])
    look = Binding("nonfinite", f"relax.{operator}", ({REF: read},))
    outputs = dict.fromkeys([*apart, *defined[-_MOST_RESULTS:], look.name])
    changed = replace(main, bindings=(*main.bindings, look), outputs=tuple(outputs))
    value = with_some_nonfinite(draws, made.inputs[name])
    return _with_input(replace(made, program=replace(made.program, main=changed)), name, value).as_case(seed)


def _floats(made: RelaxProgram, names: list[str]) -> list[str]:
    types = ((name, made.types[name]) for name in names)
    return [name for name, each in types if isinstance(each, Tensor) and each.is_float]


def _reached(made: RelaxProgram, name: str, by: Collection[str] = ()) -> dict[str, str]:
    """The bindings of main that a value of an input reaches, with their operators.

    Those are left out that it reaches by others than the operators `by`, if there are any.
    """
    reached: dict[str, str] = {}
    others: set[str] = set()
    for binding in made.program.main.bindings:
        operator, reads = binding.op.removeprefix("relax."), set(binding.reads)
        if not reads & {name, *reached, *others}:
            continue
        if by and (operator not in by or reads & others):
            others.add(binding.name)
        else:
            reached[binding.name] = operator
    return reached


def _value(draws: RandomSource, made: RelaxProgram) -> tuple[RelaxProgram, str] | None:
    """A dangerous value where arithmetic alone reads it: an index out of range is the program's own fault."""
    for name in draws.sample(tuple(made.inputs), len(made.inputs)):
        value, reached = made.inputs[name], _reached(made, name)
        if value.size and value.dtype.kind in "fiu" and reached and {*reached.values()} <= {*_ARITHMETIC}:
            special: Any = _FLOATS if value.dtype.kind == "f" else _ends(value.dtype)
            chosen, changed = draws.pick(special), value.copy()
            with np.errstate(over="ignore"):  # of halves, a huge one is infinity
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
            changed = (*bindings[:place], _with_attribute(binding, key, wrong), *bindings[place + 1 :])
            program = replace(made.program, main=replace(made.program.main, bindings=changed))
            note = f"{key} of {wrong} of {binding.op.removeprefix('relax.')}"
            return replace(made, program=program), note
    return None


def _is_count(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, int) and not isinstance(first, bool)


def _with_input(made: RelaxProgram, name: str, value: Array) -> RelaxProgram:
    return replace(made, inputs={**made.inputs, name: value})
