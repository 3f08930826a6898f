"""The PrimFuncs of a Relax program, smaller by the moves on TIR; what they no longer take is not passed.

A PrimFunc's own values are not known here: small ones stand in for its parameters, and only tell whether what
a candidate does is defined, and whether it still writes all that it gives.
"""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np

from corpus.errors import UserError
from corpus.graphs.program import CALL, REF, Binding, PrimFunc, tag_of
from corpus.tir.forms import numpy_dtype
from corpus.tir.program import make_inputs
from corpus.tir.scopes import problems
from corpus.tir.tree import For, Function, Module
from corpus.tir.values import Buffer, Const, Range, Var
from corpus.tir.walk import rebuilt, walk
from corpus.values import Tensor, Value
from oracles.tir.interpreter import interpret
from reducer.move import Hints, Move, Search, SearchOf
from reducer.moves import tir
from reducer.moves.tir.body import Candidates, by_functions
from reducer.subject.graphs.edits import without_unused
from reducer.subject.graphs.subject import GraphSubject
from reducer.subject.order import size
from reducer.subject.tir_subject import TirSubject

MOST_STEPS = 20_000
"""What takes more steps is not looked at: whether it is defined is not known then."""

ENTRY = "main"
CALL_TIR = "relax.call_tir"


def lifted(move: Move[TirSubject], subject: GraphSubject, hints: Hints) -> Search:
    """A move on loops tried on each PrimFunc of a graph."""
    best = subject
    for name in tuple(best.program.loops):
        if name in best.program.loops:
            best = yield from _in_one(move, best, name, hints)
    return best


def _in_one(move: Move[TirSubject], best: GraphSubject, name: str, hints: Hints) -> SearchOf[GraphSubject]:
    """The move's own search on one PrimFunc; what the calls cannot follow counts as refused."""
    inner = opened(best.program.loops[name].function)
    if inner is None:
        return best
    given = _given(best, name)
    writes_all = inner.must_be_defined and not _leaves(inner, given)
    search, start = move.search(inner, hints), best

    def proposed(proposal: Any) -> GraphSubject | None:
        found: TirSubject | None = proposal()
        if found is None:
            return None
        made = put_back(start, name, inner.main, found.main)
        if made is None or size(made) >= size(best) or not found.is_valid:
            return None
        lost = len(inner.main.params) - len(found.main.params)
        return None if writes_all and _leaves(found, given - lost) else made

    try:
        proposal = next(search)
        while True:
            candidate = cache(partial(proposed, proposal))
            answer = candidate() is not None and (yield candidate)
            if answer:
                best = candidate() or best
            proposal = search.send(answer)
    except StopIteration:
        return best


def opened(function: Function) -> TirSubject | None:
    """A PrimFunc as a subject with small values; None for one that the moves cannot work on."""
    module = Module({ENTRY: function})
    try:
        inputs = make_inputs(module, 0)
    except (UserError, TypeError):
        return None
    if problems(module):
        return None
    found = interpret(module, inputs, trials=0, steps=MOST_STEPS)
    return TirSubject(module, inputs=inputs, must_be_defined=not found.reason)


def put_back(subject: GraphSubject, name: str, old: Function, new: Function) -> GraphSubject | None:
    """The graph with a smaller PrimFunc; None where its calls cannot follow."""
    kept = _kept_params(old, new)
    if kept is None:
        return None
    program = replace(subject.program, loops={**subject.program.loops, name: PrimFunc(new)})
    kinds = {at: _kind(item) for at, item in zip(kept, new.params, strict=True)}
    same = all(kinds.get(at) == _kind(item) for at, item in enumerate(old.params))
    if same:
        return subject.with_program(without_unused(program), subject.inputs)
    calls = [binding for binding in program.main.bindings if name in binding.calls]
    if len(calls) != 1 or sum(name in binding.calls for binding in _walk(subject)) != 1:
        return None
    changed = _followed(calls[0], name, kept, new)
    if changed is None:
        return None
    bindings = tuple(changed if each is calls[0] else each for each in program.main.bindings)
    program = replace(program, main=replace(program.main, bindings=bindings))
    fitted = subject.with_program(without_unused(program), subject.inputs)
    found = _with_operands(fitted, changed.args[1]["tuple"], new)
    return found if found is not None and not found.complaint else None


def _kept_params(old: Function, new: Function) -> tuple[int, ...] | None:
    """The places of the parameters that are left; None where that cannot be told."""
    if len(new.params) == len(old.params):
        return tuple(range(len(old.params)))
    places = {item.name: at for at, item in enumerate(old.params)}
    found = [places[item.name] for item in new.params if item.name in places]
    return tuple(found) if len(found) == len(new.params) and found == sorted(found) else None


def _kind(item: Buffer | Var) -> object:
    """What a caller must know of a parameter."""
    return item.dtype, (_dims(item) if isinstance(item, Buffer) else ())


def _dims(buffer: Buffer) -> tuple[int | None, ...]:
    return tuple(int(dim.value) if isinstance(dim, Const) else None for dim in buffer.shape)


def _followed(binding: Binding, name: str, kept: tuple[int, ...], new: Function) -> Binding | None:
    """The call of a function with other parameters; None for a call that cannot be told anew."""
    told = binding.kwargs.get("types", ())
    is_plain = binding.op == CALL_TIR and binding.args[0] == {CALL: name} and len(told) == 1
    if not is_plain or tag_of(binding.args[1]) != "tuple" or tag_of(told[0]) != "tensor":
        return None
    given = binding.args[1]["tuple"]
    places = [at for at in kept if at < len(given)]
    result = new.params[-1]
    if len(kept) != len(places) + 1 or not isinstance(result, Buffer):  # the output went
        return None
    dims = list(_dims(result))
    types = told if None in dims else [{"tensor": [result.dtype, dims, len(dims)]}]
    args = (binding.args[0], {"tuple": [given[at] for at in places]}, *binding.args[2:])
    return replace(binding, args=args, kwargs={**binding.kwargs, "types": types})


def _with_operands(subject: GraphSubject, operands: list[Any], new: Function) -> GraphSubject | None:
    """The graph whose inputs and constants are what the parameters say; None where another value is not."""
    changed: dict[str, Tensor] = {}
    for item, operand in zip(new.params, operands, strict=False):
        name = operand.get(REF, "") if isinstance(operand, dict) else ""
        value = subject.array(name)
        if not isinstance(item, Buffer) or None in _dims(item):
            continue
        if value is None or value.ndim != len(item.shape):
            continue  # what is computed is as it was, or does not type
        cut = value[tuple(slice(dim) for dim in _dims(item))]
        if cut.shape != value.shape or value.dtype.name != item.dtype:
            if name in changed:
                return None
            with np.errstate(all="ignore"):
                changed[name] = np.ascontiguousarray(cut.astype(numpy_dtype(item.dtype)))
    return subject.with_tensors(changed) if changed else subject


def _given(subject: GraphSubject, name: str) -> int:
    """How many of a PrimFunc's parameters its calls give it; all others it writes."""
    for binding in _walk(subject):
        if name in binding.calls and binding.op.startswith(CALL_TIR) and tag_of(binding.args[1]) == "tuple":
            return len(binding.args[1]["tuple"])
    return 0


def _walk(subject: GraphSubject) -> Iterator[Binding]:
    for graph in (subject.program.main, *subject.program.functions.values()):
        yield from graph.walk()


def _leaves(subject: TirSubject, given: int) -> set[str]:
    """The outputs that keep something of what they held, which is anything where a graph calls it."""
    results = [item.name for item in subject.main.params[given:] if isinstance(item, Buffer)]
    filled = (_filled(subject.inputs, results, number) for number in (0, 1))
    zeros, ones = (interpret(subject.module, each, trials=0, steps=MOST_STEPS).outputs for each in filled)
    return {name for name in results if not _same(zeros.get(name), ones.get(name))}


def _filled(inputs: Mapping[str, Value], names: list[str], number: int) -> dict[str, Value]:
    return {
        name: np.full_like(value, number) if name in names and isinstance(value, np.ndarray) else value
        for name, value in inputs.items()
    }


def _same(a: Value, b: Value) -> bool:
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return True
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))


AFTER = 300
"""Loops come after the nodes: a binding that goes takes its PrimFunc along."""


def shorten_sizes(subject: TirSubject) -> Candidates:
    """Give every loop and dim of one size another size: a result must still be written in full."""
    dims = {dim.value for each in subject.main.buffers for dim in each.shape if isinstance(dim, Const)}
    for value in sorted(dims, reverse=True):
        for fewer in dict.fromkeys((1, 2, int(value) // 2)):
            if 0 < fewer < value:
                yield partial(_resized, subject, int(value), fewer)


def _resized(subject: TirSubject, size: int, fewer: int) -> TirSubject:
    def cut(expr: Any) -> Any:
        return replace(expr, value=fewer) if isinstance(expr, Const) and expr.value == size else expr

    def change(node: Any) -> Any:
        node = rebuilt(node, change)
        if isinstance(node, Buffer):
            return replace(node, shape=tuple(map(cut, node.shape)))
        return replace(node, extent=cut(node.extent)) if isinstance(node, For | Range) else node

    inputs: dict[str, Value] = dict(subject.inputs)
    for item in walk(subject.main.params):
        value = inputs.get(item.name) if isinstance(item, Buffer) else None
        if isinstance(value, np.ndarray):
            window = tuple(slice(fewer if dim == size else None) for dim in value.shape)
            inputs[item.name] = np.ascontiguousarray(value[window])
    return subject.with_main(change(subject.main), inputs)


def _of_tir() -> list[Move[TirSubject]]:
    names = [info.name for info in pkgutil.iter_modules(tir.__path__, f"{tir.__name__}.")]
    found = [move for name in names for move in importlib.import_module(name).MOVES]
    return [*found, Move("shorten sizes", 62, by_functions(shorten_sizes), on=TirSubject)]


MOVES = tuple(
    Move(f"{move.name}, in PrimFuncs", AFTER + move.order // 10, partial(lifted, move), on=GraphSubject)
    for move in _of_tir()
)
