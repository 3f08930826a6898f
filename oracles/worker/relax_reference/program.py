"""A whole program evaluated: functions, branches, closures, tuples, casts, and calls of simple PrimFuncs.

A simple PrimFunc is a formula of one result: `{"compute": …}` in a program's opaque functions. A formula is
JSON: a number; `["at", operand, index…]`, an operand's element; `["index", axis]`, a place in the result;
`[operator, left, right]`. An index is a formula as well; the dims are numbers.
"""

from typing import Any, Callable, Mapping, Sequence  # noqa: UP035 (Python 3.8)

import numpy as np

from oracles.worker.arrays import decoded_array
from oracles.worker.relax_reference import images, layout, reductions, rule, windows
from oracles.worker.relax_reference.rule import NotKnown, Rules, element, evaluated

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "max": np.maximum,
    "min": np.minimum,
}


def computed(item: Any) -> Callable[..., Any]:
    """A callable for such a PrimFunc; NotKnown for one in TVM's own form."""
    if not isinstance(item, dict) or "compute" not in item:
        raise NotKnown("a PrimFunc in TVM's own form")
    told: Mapping[str, Any] = item["compute"]

    def call(*operands: Any) -> Any:
        places = list(np.indices(tuple(told["shape"])))
        found = formula(told["value"], operands, places)
        return np.broadcast_to(found, tuple(told["shape"])).astype(element(told["dtype"]))

    return call


def formula(item: Any, operands: Sequence[Any], places: Sequence[Any]) -> Any:
    """The value at all places at once."""
    if not isinstance(item, list):
        return item
    head, rest = item[0], item[1:]
    if head == "at":
        return operands[rest[0]][tuple(formula(each, operands, places) for each in rest[1:])]
    if head == "index":
        return places[rest[0]]
    left, right = (formula(each, operands, places) for each in rest)
    return ARITHMETIC[head](left, right)


RULES: Rules = {**rule.RULES, **reductions.RULES, **layout.RULES, **windows.RULES, **images.RULES}
"""By operator, what it gives."""

MOST_STEPS = 100_000
"""Bindings that are evaluated in one run; a recursion that needs more counts as not known."""


def call_operator(op: str, args: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """Compute one call of an operator; NotKnown if there is no rule."""
    if op not in RULES:
        raise NotKnown(f"no rule for {op}")
    with np.errstate(all="ignore"):
        value = RULES[op](args, attributes)
        if isinstance(value, tuple) and any(isinstance(each, np.ndarray) for each in value):
            return tuple(np.asarray(each) for each in value)
        return np.asarray(value) if isinstance(value, np.generic) else value


def wide(array: Any) -> Any:
    """Floats of any width in float64."""
    is_number = array.dtype.kind in "biu"
    return array if is_number else array.astype(np.float64)


class Evaluation:
    """One run of a program; `sizes` are those of the symbolic dims of the function that is being run.

    `outside` makes a callable of a function of the document that is no graph.
    """

    def __init__(
        self, document: Mapping[str, Any], outside: Callable[[Any], Callable[..., Any]] = computed
    ) -> None:
        self.document = document
        self.outside = outside
        self.entry = str(document["facts"].get("main", "main"))
        self.constants = {name: wide(decoded_array(*item)) for name, item in document["constants"].items()}
        self.steps = 0

    def main(self, inputs: Mapping[str, Any]) -> list[Any]:
        """The values of main's outputs."""
        graph = self.document["main"]
        given = [inputs[item[0]] for item in graph["inputs"]]
        known = dict(self.constants)
        sizes: dict[str, int] = {}
        self.take(graph, given, known, sizes)
        self.bindings(graph, known, sizes)
        return [known[name] for name in graph["outputs"]]

    def take(
        self, graph: Mapping[str, Any], given: Sequence[Any], known: dict[str, Any], sizes: dict[str, int]
    ) -> None:
        """Name the arguments, and learn the sizes of the dims that are plain symbols."""
        for item, value in zip(graph["inputs"], given):  # noqa: B905 (Python 3.8)
            known[item[0]] = wide(value) if isinstance(value, np.ndarray) else value
            if len(item) > 3:
                learn_type(item[3], value, sizes)
                known[item[0]] = as_declared(item[3], known[item[0]])
            else:
                learn(item[2], value, sizes)

    def function(
        self, graph: Mapping[str, Any], known: Mapping[str, Any], sizes: Mapping[str, int]
    ) -> Callable[..., Any]:
        """A callable for a function; it sees the names around it."""

        def call(*given: Any) -> Any:
            inside, own = dict(known), dict(sizes)
            self.take(graph, given, inside, own)
            return self.result(graph, inside, own)

        return call

    def result(self, graph: Mapping[str, Any], known: dict[str, Any], sizes: dict[str, int]) -> Any:
        """Compute what a function returns: one value, or a tuple."""
        self.bindings(graph, known, sizes)
        results = tuple(known[name] for name in graph["outputs"])
        is_tuple = len(results) > 1 or graph.get("facts", {}).get("tuple")
        return results if is_tuple else results[0]

    def bindings(self, graph: Mapping[str, Any], known: dict[str, Any], sizes: dict[str, int]) -> None:
        """Compute a body's bindings in order. Raises NotKnown after MOST_STEPS."""
        for name, op, args, kwargs in graph["bindings"]:
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise NotKnown("the program takes too many steps")
            known[name] = self.value(name, op, args, kwargs, known, sizes)

    def value(
        self,
        name: str,
        op: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        known: dict[str, Any],
        sizes: dict[str, int],
    ) -> Any:
        """Compute one binding: a branch, a closure, a call, a cast or an operator."""
        if op == "if":
            branch = args[1] if truth_of(self.argument(args[0], known, sizes)) else args[2]
            return self.result(branch["graph"], dict(known), dict(sizes))
        if op == "function":
            return self.closure(name, args[0]["graph"], known, sizes)
        if op == "match_cast":
            value = self.argument(args[0], known, sizes)
            learn_type(args[1], value, sizes)
            must_fit(args[1], value)
            return value
        given = [self.argument(each, known, sizes) for each in args]
        if op == "alias":
            return given[0]
        if op == "getitem":
            return given[0][int(args[1])]
        if op in ("call", "relax.invoke_pure_closure", "relax.invoke_closure"):
            return given[0](*(given[1] if op != "call" else given[1:]))
        if op.startswith("relax.call_tir"):
            return given[0](*given[1])
        return call_operator(op, given, plain_attributes(kwargs))

    def closure(
        self, name: str, graph: Mapping[str, Any], known: Mapping[str, Any], sizes: Mapping[str, int]
    ) -> Any:
        """A local function; it may call itself."""
        around = dict(known)
        made = self.function(graph, around, sizes)
        around[name] = made
        return made

    def argument(self, item: Any, known: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
        """Give the value of an operand as the document writes it."""
        if not isinstance(item, dict):
            return item
        ((tag, inner),) = item.items()
        if tag == "ref":
            return known[inner]
        if tag == "function":
            return self.named(inner)
        if tag == "tuple":
            return tuple(self.argument(each, known, sizes) for each in inner)
        if tag == "shape":
            return tuple(evaluated(each, sizes) for each in inner)
        if tag == "prim":
            return evaluated(inner[1], sizes) if isinstance(inner[1], str) else inner[1]
        return inner

    def named(self, name: str) -> Callable[..., Any]:
        """Give a function of the module by name, as a callable."""
        if name in self.document["functions"]:
            graph = self.document["functions"][name]
            return self.function(graph, self.constants, {})
        if name == self.entry:
            return self.function(self.document["main"], self.constants, {})
        return self.outside(self.document["opaque"][name])


def plain_attributes(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes that are told by name; NotKnown where TVM alone can read them."""
    if kwargs.get("attrs") is not None:
        raise NotKnown("attributes in TVM's own form")
    told = kwargs.get("attributes", ["", {}])[1]
    return {key: _number(value) for key, value in told.items()}


def _number(value: Any) -> Any:
    if isinstance(value, list):
        return [_number(each) for each in value]
    if isinstance(value, dict) and set(value) == {"prim"}:
        return value["prim"][1]
    return value


def learn(shape: Sequence[Any], value: Any, sizes: dict[str, int]) -> None:
    """The sizes of plain symbols, by a value of the shape."""
    for dim, size in zip(shape, np.shape(value)):  # noqa: B905 (Python 3.8)
        if isinstance(dim, str) and dim.isidentifier():
            sizes[dim] = int(size)


def learn_type(declared: Any, value: Any, sizes: dict[str, int]) -> None:
    """Learn the sizes of symbolic dims from a value of a declared type."""
    ((tag, inner),) = declared.items()
    if tag == "tensor" and inner[1] is not None:
        learn(inner[1], value, sizes)
    elif tag == "shape_type" and inner[0] is not None:
        for dim, size in zip(inner[0], value):  # noqa: B905 (Python 3.8)
            if isinstance(dim, str) and dim.isidentifier():
                sizes[dim] = int(size)
    elif tag == "tuple_type":
        for each, part in zip(inner, value):  # noqa: B905 (Python 3.8)
            learn_type(each, part, sizes)


def truth_of(condition: Any) -> bool:
    """The branch of an If as a bool; ValueError for anything but a single bool."""
    array = np.asarray(condition)
    if array.shape or array.dtype != np.bool_:
        raise ValueError(f"a condition of {array.dtype}{list(array.shape)}")
    return bool(array)


def must_fit(declared: Any, value: Any) -> None:
    """Raise ValueError for a tensor that is cast to other sizes, or to a dtype of another kind."""
    if "tensor" not in declared or not isinstance(value, np.ndarray):
        return
    dtype, shape, _ = declared["tensor"]
    kinds = {dtype: element(dtype).kind} if dtype else {}
    if kinds and value.dtype.kind not in kinds.values():
        raise ValueError(f"a cast of {value.dtype} to {dtype}")
    if shape is not None and len(shape) != value.ndim:
        raise ValueError(f"a cast of rank {value.ndim} to {len(shape)}")
    for dim, size in zip(shape or (), value.shape):  # noqa: B905 (Python 3.8)
        if isinstance(dim, int) and dim != size:
            raise ValueError(f"a cast of {value.shape} to {shape}")


def as_declared(declared: Any, value: Any) -> Any:
    """An array that is passed as a shape or a number is one here too."""
    if "shape_type" in declared:
        return tuple(int(each) for each in value)
    return value[()].item() if "prim_type" in declared and isinstance(value, np.ndarray) else value
