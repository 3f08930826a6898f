"""Trees of PrimFuncs: the document keeps them, the rules find what is wrong in them."""

import math
from dataclasses import replace

import pytest

from corpus.tir import codec, script, tree, values
from corpus.tir.program import from_bytes, to_bytes
from corpus.tir.scopes import is_well_formed, problems, untrusted_callees
from corpus.tir.tree import Alloc, Bind, Block, Break, For, Function, If, Module, Seq, Stmt, Store, While
from corpus.tir.values import (
    Binary,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Let,
    Load,
    Ramp,
    Range,
    Region,
    Text,
    Unary,
    Var,
    literal,
    type_of,
)
from corpus.tir.walk import expressions, replace_expressions, replace_statements, statements
from oracles.tir import statements as run

I = Var("i")  # noqa: E741
A, B = (Buffer(name, (Const(8),), "float32") for name in "AB")
LOAD = Load("A", (I,), "float32")


def module_of(*body: Stmt) -> Module:
    """A module of one function over the buffers `A` and `B` and the number `n`."""
    return Module({"main": Function((A, B, Var("n")), body)})


def looped(*body: Stmt) -> For:
    return For(I, Const(0), Const(8), "serial", body)


SAMPLE = module_of(
    Bind(Var("x"), Binary("add", Var("n"), Const(1))),
    Alloc(Buffer("C", (Const(8, "int64"),), "int8", scope="local"), {"a": [1, "b"]}),
    looped(
        If(
            Binary("lt", I, Var("x")),
            (Store("B", (I,), Call("exp", (LOAD,), "float32")),),
            (Store("B", (I,), Const(math.inf, "float32")),),
        ),
        Store("C", (Cast("int64", I),), Const(-3, "int8")),
    ),
    While(Binary("lt", Load("C", (Const(0, "int64"),), "int8"), Const(0, "int8")), (Break(),)),
    Store("B", (Ramp(Const(0), Const(1), 4),), literal(2, "float32x4")),
    Seq(()),
)


def test_a_document_says_the_whole_tree():
    text = to_bytes(SAMPLE)
    assert from_bytes(text) == SAMPLE
    assert to_bytes(from_bytes(text)) == text
    assert problems(SAMPLE) == []


def test_every_kind_of_node_can_be_written_and_read():
    everything = {**vars(tree), **vars(values)}.values()
    kinds = {one for one in everything if isinstance(one, type)}
    exprs = {one for one in kinds if issubclass(one, Expr) and one is not Expr}
    stmts = {one for one in kinds if issubclass(one, Stmt) and one is not Stmt}
    assert exprs | stmts <= set(codec._WRITERS)
    assert len(stmts) == len(codec._STATEMENTS)
    assert stmts == set(script._STATEMENTS)
    assert stmts == set(run._KINDS)


C = Buffer("C", (Const(4),), "int32")

FAULTS = {
    "read where it is not defined": module_of(Store("B", (I,), LOAD)),
    "used where it is not defined": module_of(Store("C", (Const(0),), Const(1))),
    "given twice": module_of(looped(), looped()),
    "store to B with int32, not float32": module_of(looped(Store("B", (I,), I))),
    "has 1 dims, not 2": module_of(looped(Store("B", (I, I), LOAD))),
    "add of float32 and int32": module_of(looped(Store("B", (I,), Binary("add", LOAD, I)))),
    "operand 0 of exp is of type int32": module_of(Bind(Var("x"), Call("exp", (Var("n"),), "int32"))),
    "exp takes 1 operands, not 2": module_of(Bind(Var("x"), Call("exp", (Var("n"),) * 2, "int32"))),
    "out of int8's range": module_of(Bind(Var("x", "int8"), Const(200, "int8"))),
    "the condition of if": module_of(If(Var("n"), ())),
    "break outside of a loop": module_of(Break()),
    "not of int32": module_of(Bind(Var("x"), Unary("not", Var("n")))),
    "function 'other' is not there": module_of(Bind(Var("x"), Call("@other", (), "int32"))),
    "loop i runs with int64, not int32": module_of(For(I, Const(0, "int64"), Const(8), "serial", ())),
    "buffer 'C' is used where": module_of(
        Block("b", (), (), (Region("C", (Range(Const(0), Const(4)),)),), (), allocs=(C,))
    ),
    "a region of B has 0 dims": module_of(Block("b", (), (Region("B", ()),), (), ())),
}


@pytest.mark.parametrize("said", FAULTS)
def test_a_fault_is_named(said):
    found = problems(FAULTS[said])
    assert len(found) == 1
    assert said in found[0]


def test_names_end_with_their_body():
    inner = looped(Bind(Var("x"), I), Alloc(C))
    assert is_well_formed(module_of(inner))
    assert not is_well_formed(module_of(inner, Bind(Var("y"), Var("x"))))
    let = Let(Var("t"), Const(1), Var("t"))
    assert is_well_formed(module_of(Bind(Var("x"), let)))
    assert not is_well_formed(module_of(Bind(Var("x"), Binary("add", let, Var("t")))))


def test_a_region_and_its_block_are_checked_in_the_blocks_scope():
    axis = tree.Axis(Var("v"), Range(Const(0), Const(8)), "spatial", I)
    region = Region("B", (Range(Var("v"), Const(1)),))
    block = Block("b", (axis,), (), (region,), (Store("B", (Var("v"),), Const(1.0, "float32")),))
    assert is_well_formed(module_of(looped(block)))
    assert not is_well_formed(module_of(looped(replace(block, axes=()))))


def test_callees_outside_of_the_list_and_attributes_that_carry_code_are_named():
    safe = Call("call_pure_extern", (Text("sinf"), LOAD), "float32")
    foreign = Call("tvm_call_packed", (Text("os.system"), Text("ls")), "int32")
    native = Call("call_llvm_pure_intrin", (Const(3), LOAD), "float32")
    calls = [Store("B", (I,), safe), tree.Evaluate(foreign), Store("B", (I,), native)]
    assert untrusted_callees(module_of(looped(*calls))) == ("call_llvm_pure_intrin", "os.system")
    assert untrusted_callees(module_of(tree.Attr(0, "pragma_import_llvm", Const(1), ()))) == (
        "pragma_import_llvm",
    )


def test_positions_name_statements_and_expressions():
    body = SAMPLE.main.body
    found = [*statements(body)]
    for position in range(len(found)):
        left = [*statements(replace_statements(body, {position: ()}))]
        assert len(left) == len(found) - len([*statements((found[position],))])
    exprs = [*expressions(body)]
    for position, expr in enumerate(exprs):
        other = Var("replaced", type_of(expr))
        assert other in [*expressions(replace_expressions(body, {position: other}))]
