"""Functions of many loops, one of which holds a call that a pass of `tests.bench.planted` spoils."""

from corpus.case import Case
from corpus.target import Target
from corpus.tir.program import make_inputs, to_bytes
from corpus.tir.tree import Bind, For, Function, If, Module, Stmt, Store
from corpus.tir.values import Binary, Buffer, Call, Const, Load, Var, literal
from generators.language.values import RandomSource
from tests.bench.planted import MARKING

A, B, C = (Buffer(name, (Const(8),), "float32") for name in "ABC")
HARMLESS = (
    "tirx.StmtSimplify",
    "tirx.RemoveNoOp",
    "tirx.UnrollLoop",
    "tirx.ConvertSSA",
    "s_tir.LoopPartition",
    "tirx.RemoveAssume",
    "tirx.SkipAssert",
    "s_tir.HoistIfThenElse",
    "s_tir.RemoveStoreUndef",
    "tirx.CommonSubexprElim",
    "tirx.VerifyMemory",
)
OPTIONS = ("tirx.UnrollLoop.auto_max_step=4", "tirx.disable_vectorize=1")


def load(name: str, index: Var) -> Load:
    return Load(name, (index,), "float32")


def planted_case(name: str, callee: str, rounds: int) -> Case:
    """The function with one such call in its middle, and ten passes and two options."""
    body: list[Stmt] = []
    for number in range(rounds):
        i, x = Var(f"i{number}"), Var(f"x{number}", "float32")
        inner: list[Stmt] = [
            Bind(x, Binary("add", load("A", i), Const(float(number % 7), "float32"))),
            Store("B", (i,), Binary("mul", x, Const(0.5, "float32"))),
            If(Binary("lt", i, Const(5)), (Store("C", (i,), Call("fabs", (x,), "float32")),)),
            Store("A", (i,), Binary("sub", load("A", i), load("B", i))),
        ]
        if number == rounds // 2:
            bad = Call(callee, (Binary("add", load("A", i), literal(1.25, "float32")),), "float32")
            inner[2:2] = [Store("C", (i,), Binary("add", load("C", i), bad))]
            inner[3] = Store("B", (i,), load("C", i))
        body.append(For(i, Const(0), Const(8), "serial", tuple(inner)))
    module = Module({"main": Function((A, B, C), tuple(body), attrs={"s_tir": True})})
    case = Case("tir", to_bytes(module), make_inputs(module, 1), Target("planted"))
    return case.with_passes(sequence(name))


def sequence(name: str) -> tuple[str, ...]:
    """Ten passes with the wrong one among them, and options."""
    draws = RandomSource(f"planted/{name}")
    wrong = [f"tirx.{MARKING}", f"tirx.{name}"] if name == "AfterAnother" else [f"tirx.{name}"]
    found = list(draws.sample(HARMLESS, 10 - len(wrong)))
    places = sorted(draws.below(len(found)) for _ in wrong)
    for at, each in zip(reversed(places), reversed(wrong), strict=True):
        found.insert(at, each)
    return (*OPTIONS, *found)
