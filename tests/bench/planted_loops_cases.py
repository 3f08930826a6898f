"""Functions of two hundred statements, one of which holds an expression that a planted pass spoils."""

from corpus.case import Case
from corpus.target import Target
from corpus.tir.program import make_inputs, to_bytes
from corpus.tir.tree import Bind, For, Function, If, Module, Stmt, Store
from corpus.tir.values import Binary, Buffer, Call, Cast, Const, Expr, Load, Select, Var, literal
from generators.language.values import RandomSource
from tests.bench.planted_loops import MARKING, WRONG

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
    "s_tir.RewriteUnsafeSelect",
    "s_tir.StmtSimplify",
    "s_tir.RenormalizeSplitPattern",
    "s_tir.CanonicalizeLoop",
    "tirx.BF16ComputeLegalize",
    "tirx.FP8ComputeLegalize",
    "s_tir.UnifyThreadBinding",
    "tirx.CommonSubexprElim",
    "s_tir.LowerInitBlock",
    "tirx.VerifyMemory",
)
OPTIONS = ("tirx.UnrollLoop.auto_max_step=4", "tirx.disable_vectorize=1")


def load(name: str, index: Expr) -> Load:
    return Load(name, (index,), "float32")


def bad(name: str, i: Expr) -> Expr:
    """An expression of the kind that a pass spoils, whose value tells."""
    x, number = load("A", i), Binary("add", Binary("mul", i, Const(3)), Const(5))
    kind = WRONG[name][0]
    if kind in ("shr", "bitxor"):
        return Cast("float32", Binary(kind, number, Const(1)))
    if kind == "floormod":
        return Cast("float32", Binary(kind, number, Const(4)))
    if kind == "select":
        return Select(Binary("lt", i, Const(4)), x, literal(9, "float32"))
    if kind == "max":
        return Binary("max", x, literal(0.25, "float32"))
    if kind == "atan":
        return Call(
            "atan", (Binary("sub", literal(-3, "float32"), Call("fabs", (x,), "float32")),), "float32"
        )
    if kind == "floor":
        return Call("floor", (Binary("add", Cast("float32", i), literal(0.5, "float32")),), "float32")
    return Call(kind, (Binary("add", x, literal(1.25, "float32")),), "float32")


def planted_case(name: str, rounds: int = 33) -> Case:
    """The function with one such expression in its middle, and twenty passes and two options."""
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
            inner[2:2] = [Store("C", (i,), Binary("add", load("C", i), bad(name, i)))]
            inner[3] = Store("B", (i,), load("C", i))
        body.append(For(i, Const(0), Const(8), "serial", tuple(inner)))
    module = Module({"main": Function((A, B, C), tuple(body), attrs={"s_tir": True})})
    case = Case("tir", to_bytes(module), make_inputs(module, 1), Target("planted_loops"))
    return case.with_passes(sequence(name))


def sequence(name: str) -> tuple[str, ...]:
    """Twenty passes with the wrong one among them, and options."""
    draws = RandomSource(f"planted/{name}")
    wrong = [f"tirx.{MARKING}", f"tirx.{name}"] if name == "AfterAnother" else [f"tirx.{name}"]
    found = list(draws.sample(HARMLESS, 20 - len(wrong)))
    places = sorted(draws.below(len(found)) for _ in wrong)
    for at, each in zip(reversed(places), reversed(wrong), strict=True):
        found.insert(at, each)
    return (*OPTIONS, *found)
