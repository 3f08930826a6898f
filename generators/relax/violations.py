"""Relax programs that are known to be incorrect: each with one violation, which is named.

What a compiler owes such a program is a clean diagnostic: a crash, or a result, is the bug.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from corpus.case import Case, Remark
from corpus.graphs.program import REF, Binding, GraphProgram, Input
from corpus.values import Tensor as Array
from generators.language.values import RandomSource
from generators.relax.operator import Json, Tensor, Type
from generators.relax.programs import RelaxProgram
from oracles.verdict import REFUSAL

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

    def with_attribute(self, key: str, value: Json) -> Binding:
        """The binding with another value of an attribute."""
        kind, told = self.binding.kwargs["attributes"]
        return replace(
            self.binding, kwargs={**self.binding.kwargs, "attributes": [kind, {**told, key: value}]}
        )

    @property
    def attributes(self) -> Mapping[str, Json]:
        """The attributes by name."""
        told: Mapping[str, Json] = self.binding.kwargs.get("attributes", ["", {}])[1]
        return told


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
    value = [wrong, *at.attributes[key][1:]] if isinstance(at.attributes[key], list) else wrong
    return at.with_attribute(key, value), f"an axis of {wrong}"


def _size(at: Breaking) -> tuple[Binding, str] | None:
    keys = [key for key in _SIZES if at.attributes.get(key)]
    if not keys:
        return None
    key, wrong = at.draws.pick(keys), at.draws.pick((0, -1))
    if key == "padding":
        wrong = -99
    told = at.attributes[key]
    value = [wrong, *told[1:]] if isinstance(told, list) else wrong
    return at.with_attribute(key, value), f"{key} of {wrong}"


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


def _condition(at: Breaking) -> tuple[Binding, str] | None:
    """Return None: TVM reads any number as a condition and nowhere promises to refuse one.

    Its place among the violations keeps the programs that seeds make.
    """
    return None


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
    *(_shapes, _dtypes, _contraction, _rank, _axis, _size, _arity, _field, _condition, _cast),
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
    strays: Iterator[tuple[Input, Array]] = iter([at.stray] if at.stray else [])
    inputs, feeds = main.inputs, dict(made.inputs)
    for item, value in strays:
        inputs, feeds[item.name] = (*inputs, item), value
    bindings = (*main.bindings[:place], broken, *main.bindings[place + 1 :])
    program = replace(made.program, main=replace(main, inputs=inputs, bindings=bindings))
    where = f"{note} of {broken.op.removeprefix('relax.')}"
    notes = (Remark.VIOLATION.note(where),)
    return Case("relax", program.to_bytes(), feeds, settings=(REFUSAL,), origin=f"seed:{seed}", notes=notes)
