"""TVM's PrimFuncs as a `tir` document: node for node, names made unique. What the tree cannot say is
refused by name.
"""

from typing import Any, Callable  # noqa: UP035 (Python 3.8)

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx

from oracles.worker.tvm.tir.build import AXES, LOOPS
from oracles.worker.tvm.tir.read_values import ValueReader, returned, type_text
from oracles.worker.tvm.types import NotData

VERSION = 1
_LOOPS = {number: name for name, number in LOOPS.items()}
_AXES = {number: name for name, number in AXES.items()}


def read_module(module: Any) -> dict[str, Any]:
    """The document of a module of PrimFuncs; NotData names what it cannot say. `main` comes first if there
    is one.
    """
    functions = {var.name_hint: each for var, each in module.functions.items()}
    for name, each in functions.items():
        if not isinstance(each, tirx.PrimFunc):
            raise NotData(f"function {name} is a {type(each).__name__}, no PrimFunc")
    if not functions:
        raise NotData("the module holds no function")
    order = sorted(functions, key=lambda name: (name != "main", name))
    return {
        "format": "tir",
        "version": VERSION,
        "functions": {name: Reader().function(functions[name]) for name in order},
    }


class Reader(ValueReader):
    """Reads one function."""

    def function(self, function: Any) -> dict[str, Any]:
        """Read a PrimFunc."""
        for var in function.params:
            if not tirx.is_buffer_var(var):
                self.define(var)
        params = [
            self.buffer(var) if tirx.is_buffer_var(var) else [self.names[var], type_text(var.ty)]
            for var in function.params
        ]
        return {
            "params": params,
            "returns": returned(function.ret_type),
            "attrs": self.annotations(function.attrs or {}),
            "body": self.body(function.body),
        }

    # Statements

    def body(self, stmt: Any) -> list[Any]:
        """A body's statements; what does nothing is no statement."""
        if isinstance(stmt, tirx.SeqStmt) and len(stmt.seq) > 1:
            return [self.statement(one) for one in stmt.seq]
        if isinstance(stmt, tirx.Evaluate):
            value = stmt.value
            if isinstance(value, tirx.IntImm) and value.value == 0 and str(value.ty.dtype) == "int32":
                return []
        return [self.statement(stmt)]

    def statement(self, stmt: Any) -> list[Any]:
        """Read a statement. Raises NotData for a kind that the tree cannot say."""
        found = _STATEMENTS.get(type(stmt))
        if found is None:
            raise NotData(f"the statement {type(stmt).__name__}")
        made: list[Any] = found(self, stmt)
        return made

    def loop(self, stmt: Any) -> list[Any]:
        """Read a loop."""
        bounds = self.expressions([stmt.min, stmt.extent])
        more: dict[str, Any] = {}
        if stmt.step is not None:
            more["step"] = self.expression(stmt.step)
        if stmt.thread_binding is not None:
            more["thread"] = self.thread(stmt.thread_binding)
        if len(stmt.annotations):
            more["annotations"] = self.annotations(stmt.annotations)
        head = ["for", *self.define(stmt.loop_var), *bounds, _LOOPS[int(stmt.kind)]]
        return [*head, *([more] if more else []), {"body": self.body(stmt.body)}]

    def branch(self, stmt: Any) -> list[Any]:
        """Read an if."""
        condition = self.expression(stmt.condition)
        bodies = {"then": self.body(stmt.then_case)}
        if stmt.else_case is not None:
            bodies["else"] = self.body(stmt.else_case)
        return ["if", condition, bodies]

    def alloc(self, stmt: Any) -> list[Any]:
        """Read an allocation."""
        buffer = self.buffer(stmt.buffer)
        more = [self.annotations(stmt.annotations)] if len(stmt.annotations) else []
        return ["alloc", buffer, *more]

    def declare(self, stmt: Any) -> list[Any]:
        """Read a declaration of a buffer over given data."""
        data = self.expression(stmt.data)
        return ["declare", self.buffer(stmt.buffer), data]

    def bind(self, stmt: Any) -> list[Any]:
        """Read a binding of a variable."""
        value = self.expression(stmt.value)
        return ["bind", *self.define(stmt.var), value]

    def attribute(self, stmt: Any) -> list[Any]:
        """Read an AttrStmt."""
        node = self.data(stmt.node)
        return ["attr", node, stmt.attr_key, self.expression(stmt.value), {"body": self.body(stmt.body)}]

    def thread(self, item: Any) -> dict[str, Any]:
        """Read the axis of a thread."""
        name = ""
        if item.var.name:
            name = self.names[item.var] if item.var in self.names else self.define(item.var)[0]
        found: dict[str, Any] = {"tag": item.thread_tag, "name": name, "dtype": type_text(item.var.ty)}
        if item.dom is not None:
            found["domain"] = self.range(item.dom)
        return {**found, "kind": int(item.iter_type)}

    def block(self, stmt: Any) -> list[Any]:
        """Read a block."""
        block = stmt.block
        parts: dict[str, Any] = {}
        predicate = self.expression(stmt.predicate)
        if predicate is not True:
            parts["predicate"] = predicate
        values = self.expressions(stmt.iter_values)
        domains = [self.range(axis.dom) for axis in block.iter_vars]
        parts["axes"] = [
            [*self.define(axis.var), _AXES[int(axis.iter_type)], *domain, value]
            for axis, domain, value in zip(block.iter_vars, domains, values)  # noqa: B905 (Python 3.8)
        ]
        allocs = [self.buffer(one) for one in block.alloc_buffers]
        matches = [self.match(one) for one in block.match_buffers]
        parts["reads"] = [self.region(one) for one in block.reads]
        parts["writes"] = [self.region(one) for one in block.writes]
        if allocs:
            parts["allocs"] = allocs
        if matches:
            parts["matches"] = matches
        if len(block.annotations):
            parts["annotations"] = self.annotations(block.annotations)
        init = {"init": self.body(block.init)} if block.init is not None else {}
        return ["block", block.name_hint, parts, {**init, "body": self.body(block.body)}]

    def match(self, item: Any) -> list[Any]:
        """Read a match_buffer."""
        source = self.region(item.source)
        return [self.buffer(item.buffer), source]

    # What annotations and attributes hold

    def annotations(self, items: Any) -> dict[str, Any]:
        """Read annotations, by key."""
        return {str(key): self.data(item) for key, item in items.items()}

    def data(self, item: Any) -> Any:
        """Read what an attribute holds."""
        if item is None or isinstance(item, (bool, int, float, str)):
            return str(item) if isinstance(item, str) else item
        if isinstance(item, (list, tuple, tvm_ffi.Array)):
            return [self.data(one) for one in item]
        if isinstance(item, tirx.IterVar):
            return {"thread": self.thread(item)}
        if isinstance(item, ir.Var) and tirx.is_buffer_var(item):
            return {"buffer": self.known(item)}
        if isinstance(item, ir.Expr):
            return {"expr": self.expression(item)}
        if isinstance(item, tvm.target.Target):
            return {"target": str(item)}
        if isinstance(item, (dict, tvm_ffi.Map)):
            return {"map": {str(key): self.data(one) for key, one in item.items()}}
        raise NotData(f"an attribute that is a {type(item).__name__}")


_STATEMENTS: dict[Any, Callable[..., Any]] = {
    tirx.BufferStore: lambda reader, stmt: [
        "store",
        reader.known(stmt.buffer),
        reader.expressions(stmt.indices),
        reader.expression(stmt.value),
    ],
    tirx.Bind: Reader.bind,
    tirx.AllocBuffer: Reader.alloc,
    tirx.DeclBuffer: Reader.declare,
    tirx.For: Reader.loop,
    tirx.While: lambda reader, stmt: [
        "while",
        reader.expression(stmt.condition),
        {"body": reader.body(stmt.body)},
    ],
    tirx.IfThenElse: Reader.branch,
    tirx.AssertStmt: lambda reader, stmt: [
        "assert",
        reader.expression(stmt.condition),
        str(stmt.error_kind.value),
        [str(part.value) for part in stmt.message_parts],
    ],
    tirx.Evaluate: lambda reader, stmt: ["evaluate", reader.expression(stmt.value)],
    tirx.Return: lambda reader, stmt: ["return", reader.expression(stmt.value)],
    tirx.Break: lambda reader, stmt: ["break"],
    tirx.Continue: lambda reader, stmt: ["continue"],
    tirx.AttrStmt: Reader.attribute,
    tirx.SeqStmt: lambda reader, stmt: ["seq", {"body": [reader.statement(one) for one in stmt.seq]}],
    s_tir.SBlockRealize: Reader.block,
}
