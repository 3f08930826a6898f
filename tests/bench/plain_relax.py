"""A plain generator of Relax programs as the fuzzing RFC describes one: the peer of `relax`.

A type and fuel go in; a form is drawn, its parts are grown by their types, and a name, an input or a constant
ends growth. Operators come by recogniser and solver, those of `generators/relax/ops`. Nothing is run while a
program grows, so that its values may be anything, and no form is tried again where it does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from corpus.graphs.program import GraphProgram, graph_of_json
from generators.language.values import RandomSource
from generators.relax.operator import (
    Argument,
    Asking,
    Fields,
    Given,
    Group,
    Json,
    Literal,
    Tensor,
    Type,
    Want,
    target_of,
)
from generators.relax.ops import recognising

FORMS = {"operator": 8.0, "name": 3.0, "let": 1.0, "branch": 0.8, "pair": 0.8, "call": 1.0}
BOOL = Tensor("bool", ())
FUEL = 10


class Body:
    """A function or a branch while it grows; it reads the names around it."""

    def __init__(self, outer: Body | None = None) -> None:
        self.outer = outer
        self.inputs: list[Json] = []
        self.bindings: list[Json] = []
        self.known: dict[str, Type] = {}

    def readable(self) -> dict[str, Type]:
        return {**(self.outer.readable() if self.outer else {}), **self.known}

    def json(self, result: str) -> Json:
        return {"inputs": self.inputs, "bindings": self.bindings, "outputs": [result]}


class Plain:
    """One program while it grows."""

    def __init__(self, seed: int, nodes: int) -> None:
        self.draws = RandomSource(f"plain/{seed}/{nodes}")
        self.asking = Asking(self.draws, {}, (1, 2, 3, 4, 5), floats=("float32", "float32", "float64"))
        self.left = nodes
        self.count = 0
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self.functions: dict[str, Json] = {}
        self.main = Body()

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def bind(self, body: Body, op: str, args: list[Json], told: Type, kwargs: Json = None) -> str:
        name = self.fresh("v")
        body.bindings.append([name, op, args, kwargs or {}])
        body.known[name] = told
        self.left -= 1
        return name

    def expr(self, body: Body, told: Type, fuel: int) -> str:
        if fuel > 0 and self.left > 0 and isinstance(told, Tensor):
            form = self.draws.weighted(tuple(FORMS), tuple(FORMS.values()))
            if form != "name" and (found := getattr(self, form)(body, told, fuel)):
                return str(found)
        return self.atom(body, told)

    def atom(self, body: Body, told: Type) -> str:
        if isinstance(told, Fields):
            parts = [{"ref": self.atom(body, each)} for each in told.fields]
            return self.bind(body, "alias", [{"tuple": parts}], told)
        assert isinstance(told, Tensor)
        fitting = [name for name, each in body.readable().items() if each == told]
        if fitting and self.draws.chance(0.6):
            return self.draws.pick(fitting)
        name = self.fresh("x")
        if body is self.main and self.draws.chance(0.6):
            body.inputs.append([name, told.dtype, list(told.shape)])
            body.known[name] = told
        else:
            shape = tuple(int(dim) for dim in told.shape)
            self.constants[name] = np.ones(shape).astype(told.dtype)
        return name

    def operator(self, body: Body, told: Tensor, fuel: int) -> str | None:
        fitting = recognising(told)
        if not fitting:
            return None
        operator = self.draws.weighted(fitting, [each.weight for each in fitting])
        call = operator.solve(self.asking, told)
        if call is None:
            return None
        args = [self.spelt(body, each, fuel - 1) for each in call.args]
        kwargs = {"attributes": [call.attributes[0], dict(call.attributes[1])]} if call.attributes else {}
        made = self.bind(body, operator.name, args, call.result, kwargs)
        return (
            made if call.at is None else self.bind(body, "getitem", [{"ref": made}, call.at], target_of(call))
        )

    def spelt(self, body: Body, argument: Argument, fuel: int) -> Json:
        if isinstance(argument, Literal):
            return argument.item
        if isinstance(argument, Given):
            name = self.fresh("c")
            self.constants[name] = argument.array
            return {"ref": name}
        if isinstance(argument, Group):
            return {"tuple": [self.spelt(body, each, fuel // 2) for each in argument.members]}
        assert isinstance(argument, Want)
        return {"ref": self.expr(body, argument.type, fuel)}

    def let(self, body: Body, told: Tensor, fuel: int) -> str:
        self.expr(body, self.type(), fuel // 2)
        return self.bind(body, "alias", [{"ref": self.expr(body, told, fuel // 2)}], told)

    def branch(self, body: Body, told: Tensor, fuel: int) -> str:
        condition = self.expr(body, BOOL, 1)
        parts = []
        for _ in range(2):
            inner = Body(body)
            parts.append({"graph": inner.json(self.expr(inner, told, fuel // 2))})
        return self.bind(body, "if", [{"ref": condition}, *parts], told)

    def pair(self, body: Body, told: Tensor, fuel: int) -> str:
        fields = [told, self.type()]
        parts = [{"ref": self.expr(body, each, fuel // 2)} for each in fields]
        both = self.bind(body, "alias", [{"tuple": parts}], Fields(tuple(fields)))
        return self.bind(body, "getitem", [{"ref": both}, 0], told)

    def call(self, body: Body, told: Tensor, fuel: int) -> str:
        inner, name = Body(), self.fresh("f")
        params = [self.type() for _ in range(self.draws.between(1, 2))]
        for each in params:
            param = self.fresh("p")
            inner.inputs.append([param, each.dtype, list(each.shape)])
            inner.known[param] = each
        result = self.bind(inner, "alias", [{"ref": self.expr(inner, told, fuel // 2)}], told)
        self.functions[name] = inner.json(result)
        given = [{"ref": self.expr(body, each, fuel // 3)} for each in params]
        return self.bind(body, "call", [{"function": name}, *given], told)

    def type(self) -> Tensor:
        return Tensor(self.asking.float(), self.asking.shape(0, 4))

    def program(self) -> GraphProgram:
        results = []
        while self.left > 0:
            results.append(self.expr(self.main, self.type(), FUEL))
        last = self.bind(self.main, "alias", [{"ref": results[-1]}], BOOL)
        outputs = [*(each for each in results if each in {item[0] for item in self.main.bindings}), last]
        graph = {**self.main.json(last), "outputs": list(dict.fromkeys(outputs)), "facts": {"pure": True}}
        functions = {name: graph_of_json(each) for name, each in self.functions.items()}
        return GraphProgram("relax", graph_of_json(graph), self.constants, functions, {}, {"main": "main"})


def programs(seeds: range, nodes: int) -> Iterator[GraphProgram]:
    """Yield a program a seed, of about so many bindings."""
    for seed in seeds:
        yield Plain(seed, nodes).program()
