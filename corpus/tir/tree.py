"""The tree's statements, functions and modules of TIR, immutable.

A body is a tuple of statements; an empty one does nothing. Expressions and buffers stand in
`corpus/tir/values.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from corpus.tir.forms import BufferName, Data, DType, Json, LoopKind, Word, form
from corpus.tir.values import Buffer, Call, Const, Expr, Range, Region, Var

View: TypeAlias = Buffer
"""A buffer over memory that is there: it defines each bare variable among its dims, strides and offset."""


@form("_ *var kind *domain value")
@dataclass(frozen=True, slots=True)
class Axis:
    """A block's iteration variable: `kind` is spatial, reduce, ordered or opaque; `value` is what the loops
    bind.
    """

    var: Var
    domain: Range
    kind: str
    value: Expr


@form("_ buffer source")
@dataclass(frozen=True, slots=True)
class Match:
    """A buffer that is a region of another one."""

    buffer: View
    source: Region


@dataclass(frozen=True, slots=True)
class Thread:
    """The thread that a loop or a scope is bound to, such as `threadIdx.x`.

    `domain` and `name` are often absent.
    """

    tag: Word
    name: str = ""
    dtype: DType = "int32"
    domain: Range | None = None
    kind: int = 1


@dataclass(frozen=True, slots=True)
class Stmt:
    """Anything that is done."""


Body: TypeAlias = tuple[Stmt, ...]

CERTAIN = Const(True, "bool")


@form("store buffer indices value")
@dataclass(frozen=True, slots=True)
class Store(Stmt):
    """A value put into a buffer; a vector where the last index is one."""

    buffer: BufferName
    indices: tuple[Expr, ...]
    value: Expr


@form("bind *var value")
@dataclass(frozen=True, slots=True)
class Bind(Stmt):
    """A value under a name, for the statements that follow in the same body."""

    var: Var
    value: Expr


@form("alloc buffer annotations?")
@dataclass(frozen=True, slots=True)
class Alloc(Stmt):
    """Fresh memory, for the statements that follow in the same body. What it holds is undefined."""

    buffer: Buffer
    annotations: Data = field(default_factory=dict)


@form("declare buffer data")
@dataclass(frozen=True, slots=True)
class Declare(Stmt):
    """A buffer at an address that already has memory, for the statements that follow in the same body."""

    buffer: View
    data: Expr


@form("for *var min extent kind {step? thread? annotations?} {body}")
@dataclass(frozen=True, slots=True)
class For(Stmt):
    """A loop of one of `LOOPS`. A `step` of None is 1."""

    var: Var
    min: Expr
    extent: Expr
    kind: LoopKind
    body: Body
    step: Expr | None = None
    thread: Thread | None = None
    annotations: Data = field(default_factory=dict)


@form("while condition {body}")
@dataclass(frozen=True, slots=True)
class While(Stmt):
    """A loop as long as the condition holds."""

    condition: Expr
    body: Body


@form("if condition {then other:else?}")
@dataclass(frozen=True, slots=True)
class If(Stmt):
    """One of two bodies; `other` is None without an else."""

    condition: Expr
    then: Body
    other: Body | None = None


@form("assert condition kind message")
@dataclass(frozen=True, slots=True)
class Assert(Stmt):
    """An error of that kind where the condition does not hold."""

    condition: Expr
    message: tuple[str, ...] = ()
    kind: Word = "RuntimeError"


@form("evaluate value")
@dataclass(frozen=True, slots=True)
class Evaluate(Stmt):
    """An expression computed for its effect."""

    value: Expr


@form("return value")
@dataclass(frozen=True, slots=True)
class Return(Stmt):
    """The end of the function."""

    value: Expr


@form("break")
@dataclass(frozen=True, slots=True)
class Break(Stmt):
    """The end of the innermost loop."""


@form("continue")
@dataclass(frozen=True, slots=True)
class Continue(Stmt):
    """The end of the innermost loop's round."""


def is_jump(stmt: object) -> bool:
    """Whether it leaves a loop or its round: a statement of its own, or the intrinsic, which TVM compiles."""
    match stmt:
        case Break() | Continue() | Evaluate(Call("break_loop" | "continue_loop")):
            return True
    return False


About: TypeAlias = Json | Thread | Expr
"""What an attribute is about; a thread is defined by it."""


@form("attr node key value {body}")
@dataclass(frozen=True, slots=True)
class Attr(Stmt):
    """A body under an attribute. `node` is JSON, a `Thread`, an expression or a buffer."""

    node: About
    key: Word
    value: Expr
    body: Body


@form("seq {body}")
@dataclass(frozen=True, slots=True)
class Seq(Stmt):
    """A sequence within a sequence, which some of TVM's passes leave behind."""

    body: Body


@form("block name {predicate? axes reads writes allocs? matches? annotations?} {init? body}")
@dataclass(frozen=True, slots=True)
class Block(Stmt):
    """A block with its axes, what it reads and writes, its initial statement and its own memory."""

    name: Word
    axes: tuple[Axis, ...]
    reads: tuple[Region, ...]
    writes: tuple[Region, ...]
    body: Body
    init: Body | None = None
    predicate: Expr = CERTAIN
    allocs: tuple[Buffer, ...] = ()
    matches: tuple[Match, ...] = ()
    annotations: Data = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Function:
    """A PrimFunc. The dims of its buffers' shapes may be variables that the caller's arrays give a value.

    `returns` is `void`, `missing` (nothing was said) or a type.
    """

    params: tuple[Buffer | Var, ...]
    body: Body
    returns: str = "void"
    attrs: Data = field(default_factory=dict)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers among its parameters."""
        return tuple(item for item in self.params if isinstance(item, Buffer))


@dataclass(frozen=True, slots=True)
class Module:
    """Functions by name; the first one is what a case runs."""

    functions: Mapping[str, Function]

    @property
    def entry(self) -> str:
        """The name of the function that is run."""
        return next(iter(self.functions))

    @property
    def main(self) -> Function:
        """The function that is run."""
        return self.functions[self.entry]
