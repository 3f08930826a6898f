"""TIR programs run: what their buffers hold, which of that is defined, how far rounding may move it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpus.tir.forms import is_float, numpy_dtype
from corpus.tir.promises import broken
from corpus.tir.tree import Function, Module
from corpus.tir.values import Buffer, Const, Var
from corpus.tir.walk import called_functions
from corpus.values import Tensor, Value
from oracles.tir.memory import view_of
from oracles.tir.scalars import NOISE, UNDEFINED, Noise, NotModelled, Undefined
from oracles.tir.state import Memory, Routine, State, View, compact
from oracles.tir.statements import compiled_body

RETURNED = "(returned)"
"""The name of what a function returns, among its outputs; as in the worker."""

MOST_STEPS = 300_000
TRIALS = 4
"""How many runs with noise tell how far rounding may move a result."""

MARGIN = 8.0
"""How many times as far as noise was seen to move a result it may still be moved."""


COARSE = frozenset({"float16", "bfloat16"})
"""Types whose steps are larger than what is put up with everywhere."""


@dataclass(frozen=True)
class Interpretation:
    """A run's outputs by name; `reason` says why nothing of it is defined, and is empty elsewhere.

    `defined` tells of each element whether anything defines it, `slack` by how much rounding may move it.
    """

    outputs: Mapping[str, Tensor] = field(default_factory=dict)
    defined: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    slack: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    reason: str = ""
    is_modelled: bool = True

    @property
    def is_defined(self) -> bool:
        """Whether every element of every output is defined."""
        return not self.reason and all(bool(mask.all()) for mask in self.defined.values())


def interpret(
    module: Module,
    inputs: Mapping[str, Value],
    trials: int = TRIALS,
    steps: int = MOST_STEPS,
    fresh: Collection[str] = (),
    *,
    in_full: bool = False,
) -> Interpretation:
    """Interpret one call of the module's first function; what `fresh` buffers hold is undefined.

    `in_full`: a program of which a block does not write all that it says it does is undefined, too.

    An undefined program, or one that is not modelled, gives no outputs but the reason. Without `trials` the
    result says nothing of rounding; a run of more than `steps` steps is not modelled.
    """
    try:
        actions = _compiled(module)
        exact, is_rough = _run(module, inputs, actions, None, steps, fresh, in_full=in_full)
        noisy = range(trials if is_rough else 0)
        moved = [_run(module, inputs, actions, Noise(trial), steps, fresh)[0] for trial in noisy]
    except Undefined as error:
        return Interpretation(reason=str(error))
    except NotModelled as error:
        return Interpretation(reason=str(error), is_modelled=False)
    except RecursionError:
        return Interpretation(reason="a program of such depth", is_modelled=False)
    values = {name: _array(cells, dtype, shape) for name, (cells, dtype, shape) in exact.items()}
    outputs = {name: array for name, (array, _) in values.items()}
    defined = {name: mask for name, (_, mask) in values.items()}
    slack = {name: _slack(name, outputs[name], moved) for name in outputs}
    return Interpretation(outputs, {name: _told(defined[name], slack[name]) for name in outputs}, slack)


Cells = dict[str, tuple[list[Any], str, tuple[int, ...]]]


def _compiled(module: Module) -> dict[str, Routine]:
    """The first function and those that are called, directly or not."""
    found: dict[str, Routine] = {}
    waiting = [module.entry]
    while waiting:
        if (name := waiting.pop()) not in found:
            function = module.functions[name]
            for reason in broken(function):
                raise Undefined(reason)
            params = tuple(param.name for param in function.params)
            found[name] = Routine(params, compiled_body(function.body))
            callees = called_functions(function)
            if any(module.functions[callee].buffers for callee in callees):
                raise NotModelled("a function that is called with buffers")
            waiting += callees
    return found


def _run(
    module: Module,
    inputs: Mapping[str, Value],
    actions: Mapping[str, Routine],
    noise: Noise | None,
    steps: int,
    fresh: Collection[str],
    *,
    in_full: bool = False,
) -> tuple[Cells, bool]:
    state = State(steps, noise, routines=actions, claims={} if in_full else None)
    function = module.main
    for param in function.params:
        if isinstance(param, Var):
            state.vars[param.name] = _tensor(inputs[param.name]).reshape(()).item()
    given = {buffer.name: _tensor(inputs[buffer.name]) for buffer in function.buffers}
    for buffer in function.buffers:
        _bind_dims(buffer, given[buffer.name].shape, state)
    for buffer in function.buffers:
        state.views[buffer.name] = _param(buffer, given[buffer.name], state, buffer.name in fresh)
    views = {buffer.name: state.views[buffer.name] for buffer in function.buffers}
    actions[module.entry].act(state)
    for name, claimed in (state.claims or {}).items():
        if not claimed.said <= claimed.written:
            raise Undefined(f"block {name} does not write all that it says, on which schedules rely")
    found = {name: (view.memory.cells, view.memory.dtype, view.shape) for name, view in views.items()}
    if state.returned is not None:
        found[RETURNED] = ([state.returned], function.returns, ())
    return found, state.is_rough


def _bind_dims(buffer: Buffer, shape: tuple[int, ...], state: State) -> None:
    for expr, dim in zip(buffer.shape, shape, strict=True):
        if isinstance(expr, Var):
            state.vars.setdefault(expr.name, dim)
    for expr, stride in zip(buffer.strides, compact(shape), strict=False):
        if isinstance(expr, Var):
            state.vars.setdefault(expr.name, stride)
    if isinstance(buffer.offset, Var):
        state.vars.setdefault(buffer.offset.name, 0)


def _param(buffer: Buffer, value: Tensor, state: State, is_fresh: bool) -> View:
    cells = [UNDEFINED] * value.size if is_fresh else value.ravel().tolist()
    memory = Memory(buffer.dtype, cells)
    view = view_of(buffer, state, memory)
    if view.shape != value.shape or view.strides != compact(view.shape):
        raise NotModelled("a parameter that does not lie in memory row by row, or of another shape")
    return view


def _tensor(value: Value) -> Tensor:
    if not isinstance(value, np.ndarray):
        raise NotModelled("an input that is no tensor")
    return value if value.dtype.kind in "biuf" else value.astype(np.float64)


def _array(cells: list[Any], dtype: str, shape: tuple[int, ...]) -> tuple[Tensor, NDArray[np.bool_]]:
    kind = numpy_dtype(dtype)
    if kind is None:
        raise NotModelled(f"the type {dtype}")
    mask = np.array([cell is not UNDEFINED for cell in cells], bool).reshape(shape)
    plain = [0 if cell is UNDEFINED else cell for cell in cells]
    with np.errstate(all="ignore"):
        array = np.array(plain, np.float64 if is_float(dtype) else kind).astype(kind)
    return array.reshape(shape), mask


def _slack(name: str, exact: Tensor, moved: list[Cells]) -> NDArray[np.float64]:
    """How far noise moved each element, with a margin; infinite if it was not always defined."""
    slack = _least_slack(exact) if moved else np.zeros(exact.shape)
    for run in moved:
        array, mask = _array(*run[name])
        with np.errstate(all="ignore"):
            apart = np.abs(array.astype(np.float64) - exact.astype(np.float64))
        same = (array == exact) | ((array != array) & (exact != exact))
        apart = np.where(same, 0.0, np.where(np.isnan(apart), np.inf, apart))
        slack = np.maximum(slack, np.where(mask, apart, np.inf))
    if not is_float(exact.dtype.name):
        return np.where(slack > 0, np.inf, 0.0)
    return slack * MARGIN


def _least_slack(exact: Tensor) -> NDArray[np.float64]:
    """What an element of few bits may always be off by: noise moves it by whole steps, or back."""
    relative = NOISE.get(exact.dtype.name, 0.0) if exact.dtype.name in COARSE else 0.0
    with np.errstate(all="ignore"):
        size = np.abs(exact.astype(np.float64)) * relative / MARGIN
    return np.where(np.isfinite(size), size, 0.0)


def _told(defined: NDArray[np.bool_], slack: NDArray[np.float64]) -> NDArray[np.bool_]:
    return defined & np.isfinite(slack)


_NUDGE, _MOVED = 1e-5, 1e-2
"""How far operands are moved, and how far a result may move then, both relative."""


class NotDefined(Exception):
    """The call has no result that every compiler must give, or the interpreter does not know it."""


def called(function: Function, operands: Sequence[Tensor], steps: int = MOST_STEPS) -> list[Tensor]:
    """What the call leaves in each buffer after the operands, undefined before. Raises NotDefined."""
    given, written = function.params[: len(operands)], function.params[len(operands) :]
    arrays: dict[str, Tensor] = {}
    for param, value in zip(given, operands, strict=False):
        with np.errstate(over="ignore"):
            arrays[param.name] = value.astype(param.dtype)
    for param in written:
        dims = param.shape if isinstance(param, Buffer) else (None,)
        known = [int(dim.value) for dim in dims if isinstance(dim, Const)]
        if len(known) < len(dims):
            raise NotDefined("a result whose dims are not numbers")
        arrays[param.name] = np.zeros(tuple(known), param.dtype)
    if len(given) < len(operands) or not written:
        raise NotDefined("a PrimFunc of other parameters than a call without effects gives it")
    found = interpret(
        Module({"main": function}), arrays, trials=0, steps=steps, fresh=[param.name for param in written]
    )
    if not found.is_defined:
        raise NotDefined(found.reason or "an element that is not defined")
    return [found.outputs[param.name] for param in written]


def is_steady(
    function: Function, operands: Sequence[Tensor], exact: Sequence[Tensor], steps: int = MOST_STEPS
) -> bool:
    """Whether results hardly move from the exact ones if the float operands do.

    A comparison or a floor of what was computed elsewhere may be decided by its rounding.
    """
    if all(value.dtype.kind != "f" for value in operands):
        return True
    moved = called(function, [_nudged(value) for value in operands], steps)
    return all(_is_near(a, b) for a, b in zip(exact, moved, strict=True))


def _nudged(value: Tensor) -> Tensor:
    """Move the elements of a float tensor, neighbours in opposite directions."""
    if value.dtype.kind != "f":
        return value
    signs = np.where(np.arange(value.size) % 2, 1.0, -1.0).reshape(value.shape)
    return np.asarray(value * (1 + _NUDGE * signs) + _NUDGE * 1e-2 * signs, value.dtype)


def _is_near(exact: Tensor, moved: Tensor) -> bool:
    if exact.dtype.kind != "f":
        return bool(np.array_equal(exact, moved))
    return bool(np.allclose(exact, moved, rtol=_MOVED, atol=_MOVED))
