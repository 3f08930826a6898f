"""PrimFuncs within Relax programs become smaller, and the graph around them follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from corpus.formats.relax import FORMAT
from corpus.graphs.loops import PrimFunc
from corpus.graphs.program import REF, Binding, Graph, GraphProgram, Input
from corpus.tir.tree import Alloc, For, Function
from corpus.tir.tree import Store as Put
from corpus.tir.values import Binary, Buffer, Call, Const, Load, Var
from reducer.move import Hints
from reducer.moves import all_moves
from reducer.subject.graphs.subject import GraphSubject
from reducer.subject.order import size

I = Var("i")  # noqa: E741
A, B, C, T = (Buffer(name, (Const(8),), "float32") for name in "ABCT")


def read(name: str) -> Load:
    return Load(name, (I,), "float32")


def loop(*body: Put) -> For:
    return For(I, Const(0), Const(8), "serial", body)


J = Var("j")
EXP2 = Call("exp2", (Load("A", (J,), "float32"),), "float32")
BODY = (
    Alloc(T),
    loop(Put("T", (I,), Binary("add", read("A"), read("B")))),
    For(J, Const(0), Const(8), "serial", (Put("C", (J,), Binary("mul", Load("T", (J,), "float32"), EXP2)),)),
)


def subject() -> GraphSubject:
    call = Binding(
        "r",
        "relax.call_tir",
        ({"function": "f"}, {"tuple": [{REF: "x"}, {REF: "p"}]}),
        {"types": [{"tensor": ["float32", [8], 1]}]},
    )
    inputs = tuple(Input(name, "float32", (8,)) for name in "xy")
    main = Graph(inputs, (Binding("p", "relax.nn.relu", ({REF: "y"},)), call), ("r",))
    loops = {"f": PrimFunc(Function((A, B, C), BODY, attrs={"s_tir": True}))}
    program = GraphProgram("relax", main, loops=loops, facts={"main": "main"})
    return GraphSubject(program, inputs={name: np.ones(8, np.float32) for name in "xy"})


def smallest(start: GraphSubject, wanted: str) -> GraphSubject:
    """What rounds of the moves on PrimFuncs leave where the document must hold a text."""
    moves = [move for move in all_moves(GraphSubject) if move.name.endswith("in PrimFuncs")]
    best, before = start, None
    while before is not best:
        before = best
        for move in moves:
            found = _driven(move.search(best, Hints()), wanted)
            best = found if size(found) < size(best) else best
    return best


def _driven(search: Any, wanted: str) -> Any:
    try:
        proposal = next(search)
        while True:
            candidate = proposal()
            proposal = search.send(candidate is not None and wanted in candidate.document.decode())
    except StopIteration as end:
        return end.value


def test_a_primfunc_shrinks_and_its_call_with_it() -> None:
    found = smallest(subject(), "exp2").program
    (function,) = (each.function for each in found.loops.values())
    assert [type(stmt).__name__ for stmt in function.body] == ["Store"]
    assert len(function.params) == 1  # what is read no more is not passed
    call = next(each for each in found.main.bindings if each.op == "relax.call_tir")
    assert call.args[1] == {"tuple": []}
    assert call.kwargs["types"] == [{"tensor": ["float32", [1], 1]}]


def test_what_is_given_back_is_still_written_in_full() -> None:
    found = smallest(subject(), "call_tir").program  # anything will do
    (function,) = (each.function for each in found.loops.values())
    assert [stmt.buffer for stmt in function.body if isinstance(stmt, Put)] == [function.params[-1].name]


def test_a_program_with_loops_is_read_again() -> None:
    program = subject().program
    again = FORMAT.parse(program.to_bytes(), "it")
    assert again == program
    assert "exp2" in FORMAT.print_text(again)


@pytest.mark.parametrize(("callee", "complains"), [("system", True), ("sqrtf", False)])
def test_what_a_primfunc_calls_needs_trust(callee: str, complains: bool) -> None:
    text = subject().program.to_bytes().decode()
    extern = f'["call", "call_extern", "float32", ["text", "{callee}"], '
    hostile = text.replace('["exp2", ', extern)
    assert hostile != text
    assert bool(FORMAT.calls_outside(hostile.encode())) is complains
