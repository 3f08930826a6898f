"""A document to a module, with the values that compilers call it with: MLIR builds it and infers types."""

import json
import re
from typing import Any, Iterator  # noqa: UP035 (Python 3.8)

import numpy as np

from oracles.worker.arrays import decoded_array, literal
from oracles.worker.onnx import to_array
from oracles.worker.stablehlo.read import (
    CALL,
    MEMBER,
    WIDE,
    NotData,
    constant_text,
    dtype_of,
    in_short,
    told_type,
    type_text,
)

BROKEN = re.compile(
    r"requires attribute|unregistered operation|(single|\d+) operand|satisfy constraint|region"
)
"""What MLIR says of an operation for which its types must not be inferred."""
LAST = ""
"""Where the last constant stands among the values of a block."""
LIKE_OPERANDS = ("stablehlo.while", "stablehlo.sort")
"""Operations with regions whose results have the types of their operands."""


class Builder:
    """The module of one document; `types` are those of all bindings that give one tensor."""

    def __init__(self, ir: Any, program: str, double: bool = False) -> None:
        self.ir = ir
        self.told = json.loads(program)
        self.double = double
        self.types: dict[str, Any] = {}
        self.results: list[tuple[str, str]] = []
        self.functions: dict[str, Any] = {}
        self.module = ir.Module.create()

    def build(self, outputs: Any = None) -> Any:
        """The module with its entry `main`, whose `results` are these names; verified."""
        self._function("main", self.told["main"], outputs)
        self.module.operation.verify()
        return self.module

    def dtype(self, name: str) -> str:
        """The element type that a value of this one has here."""
        return WIDE.get(name, name) if self.double else name

    def _type(self, dims: Any, dtype: str) -> Any:
        return self.ir.Type.parse(type_text(dims, self.dtype(dtype)))

    def _function(self, name: str, graph: Any, outputs: Any = None) -> Any:
        """A function's result types; built where it is first called."""
        ir, is_main = self.ir, name == "main"
        self.functions[name] = None
        types = [self._type(dims, dtype) for _, dtype, dims, *_ in graph["inputs"]]
        with ir.InsertionPoint(self.module.body):
            function = ir.Operation.create(
                "func.func", attributes=self._signature(name, types, []), regions=1
            )
        block = function.regions[0].blocks.append(*types)
        places = self._filled(block, graph, {})
        wanted = [
            each for each in outputs or graph["outputs"] if not (is_main and self._is_tuple(places, each))
        ]
        values = [self._read(places, each, block) for each in wanted]
        with ir.InsertionPoint(block):
            ir.Operation.create("func.return", operands=values)
        found = [each.type for each in values]
        for key, attribute in self._signature(name, types, found).items():
            function.attributes[key] = attribute
        if is_main:
            self.results = [
                (each, told_type(ir, type_)[1])
                for each, type_ in zip(wanted, found)  # noqa: B905 (Python 3.8)
            ]
        self.functions[name] = found
        return found

    def _is_tuple(self, places: Any, name: str) -> bool:
        return isinstance(places.get(name), list)

    def _signature(self, name: str, types: Any, results: Any) -> "dict[str, Any]":
        ir = self.ir
        return {
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, results)),
            "sym_visibility": ir.StringAttr.get("public" if name == "main" else "private"),
        }

    def _filled(self, block: Any, graph: Any, outer: Any) -> Any:
        """Put a graph's bindings into a block; all values that can be read there."""
        places = {name: each for name, each in outer.items() if name != LAST}
        for (name, *_), argument in zip(graph["inputs"], block.arguments):  # noqa: B905 (Python 3.8)
            places[name] = argument
        for name, op, args, kwargs in graph["bindings"]:
            with self.ir.InsertionPoint(block):
                made = self._binding(block, places, op, args, kwargs)
            places[name] = made
            if not isinstance(made, list):
                dims, dtype = told_type(self.ir, made.type)
                self.types[name] = [dtype, dims]
        return places

    def _read(self, places: Any, name: str, block: Any) -> Any:
        """The value of a name; a constant is written at the head of the block that reads it."""
        known = places.get(name)
        if known is None:
            if name not in self.told["constants"]:
                raise NotData(f"{name!r:.60} is not there")
            array = decoded_array(*self.told["constants"][name])
            array = array.astype(dtype_of(self.dtype(array.dtype.name)))
            made = self.ir.Operation.parse(constant_text(array))
            self.ir.InsertionPoint.at_block_begin(block).insert(made)
            if places.get(LAST) is not None:
                made.operation.move_after(places[LAST])
            places[LAST] = made.operation
            known = places[name] = made.operation.results[0]
        return known

    def _binding(self, block: Any, places: Any, op: str, args: Any, kwargs: Any) -> Any:
        """The value that a binding gives; of several a list."""
        if op == "alias":
            return self._aliased(block, places, args[0])
        if op == MEMBER:
            return self._read(places, args[0]["ref"], block)[args[1]]
        operands = [self._read(places, each["ref"], block) for each in _flat(args) if "ref" in each]
        if any(isinstance(each, list) for each in operands):
            raise NotData(f"{op[:60]} reads a tuple")
        if op == CALL:
            made = self._called(str(args[0]["function"]), operands)
        else:
            made = self._operation(op, operands, kwargs, places)
        results = list(made.results)
        return results[0] if len(results) == 1 else results

    def _aliased(self, block: Any, places: Any, item: Any) -> Any:
        if "tuple" in item:
            return [self._read(places, each["ref"], block) for each in item["tuple"]]
        return self._read(places, item["ref"], block)

    def _called(self, name: str, operands: Any) -> Any:
        if name not in self.functions:
            if name == "main":
                raise NotData("a function calls main")
            with self.ir.InsertionPoint(self.module.body):
                self._function(name, self.told["functions"][name])
        types = self.functions[name]
        if types is None:
            raise NotData(f"the function {name!r:.60} calls itself")
        callee = self.ir.FlatSymbolRefAttr.get(name)
        return self.ir.Operation.create(
            "func.call", results=types, operands=operands, attributes={"callee": callee}
        )

    def _operation(self, op: str, operands: Any, kwargs: Any, places: Any) -> Any:
        ir, told = self.ir, kwargs.get("type")
        if not op.startswith(("stablehlo.", "chlo.")):
            raise NotData(f"{op[:60]!r} is no operation of StableHLO")
        attributes = {
            name: ir.DenseI64ArrayAttr.get(item)
            if isinstance(item, list)
            else ir.Attribute.parse(item["mlir"])
            for name, item in kwargs.items()
            if name not in ("type", "regions")
        }
        regions = [each["graph"] for each in kwargs.get("regions", [])]
        if op == "stablehlo.while" and len(regions) == 2 and _is_endless(*regions):
            raise NotData("a loop whose condition nothing changes")
        if op in LIKE_OPERANDS:
            types = [each.type for each in operands]
        elif told is not None:
            types = [self._type(*each["tensor"]) for each in (told if isinstance(told, list) else [told])]
        else:
            self._must_be_inferable(op, operands, attributes)
            return ir.Operation.create(op, operands=operands, attributes=attributes, infer_type=True)
        made = ir.Operation.create(op, types, operands, attributes, regions=len(regions))
        for region, graph in zip(made.regions, regions):  # noqa: B905 (Python 3.8)
            self._region(region, graph, places)
        return made

    def _region(self, region: Any, graph: Any, places: Any) -> None:
        types = [self._type(dims, dtype) for _, dtype, dims, *_ in graph["inputs"]]
        block = region.blocks.append(*types)
        outer = {name: each for name, each in places.items() if name not in self.told["constants"]}
        inner = self._filled(block, graph, outer)
        values = [self._read(inner, each, block) for each in graph["outputs"]]
        with self.ir.InsertionPoint(block):
            self.ir.Operation.create("stablehlo.return", operands=values)

    def _must_be_inferable(self, op: str, operands: Any, attributes: Any) -> None:
        """NotData where something is missing: inference would read it all the same."""
        ir = self.ir
        some = [ir.Type.parse("tensor<f32>")]
        trial = ir.Operation.create(op, some, operands, attributes, ip=False)
        try:
            trial.verify()
        except ir.MLIRError as error:
            said = in_short(str(error))
            if BROKEN.search(said):
                raise NotData(said) from None


def _is_endless(condition: Any, body: Any) -> bool:
    """Whether a body hands on unchanged all that the condition reads of it."""
    names = [name for name, *_ in condition["inputs"]]
    text = json.dumps([condition["bindings"], [{"ref": each} for each in condition["outputs"]]])
    asked = [place for place, name in enumerate(names) if json.dumps({"ref": name}) in text]
    same = [name == out for (name, *_), out in zip(body["inputs"], body["outputs"])]  # noqa: B905
    return all(same[place] for place in asked if place < len(same))


def _flat(items: Any) -> "Iterator[Any]":
    for item in items:
        if isinstance(item, list):
            yield from _flat(item)
        elif isinstance(item, dict):
            yield item


def built(ir: Any, context: Any, program: str, double: bool, outputs: Any) -> "tuple[str, Any]":
    """The text of a document's module, and the names and dtypes of its results in order."""
    with context, ir.Location.unknown():
        builder = Builder(ir, program, double)
        text = builder.build(outputs).operation.get_asm()
    return str(text), builder.results


def describe(ir: Any, context: Any, program: str) -> "dict[str, Any]":
    """The types in a document and its text, or the `error` that makes it no module."""
    try:
        with context, ir.Location.unknown():
            builder = Builder(ir, program)
            text = builder.build().operation.get_asm()
            return {"types": builder.types, "text": str(text)}
    except (NotData, LookupError, TypeError, ValueError) as error:
        return {"error": f"{error}"}
    except ir.MLIRError as error:
        return {"error": in_short(str(error))}


def prepared(
    ir: Any, context: Any, program: bytes, inputs: "dict[str, Any]", settings: "dict[str, Any]", outputs: Any
) -> "tuple[str, list[Any], list[tuple[str, Any]]]":
    """The text of a program's module, the values to call it with, and its results' names and dtypes.

    With `double` floats are float64; with `outputs` these are its results, those that are tuples left out.
    """
    double = bool(settings.get("double"))
    text, results = built(ir, context, program.decode(), double, outputs)
    feeds = json.loads(program)["main"]["inputs"]
    values = [_fitted(inputs[name], dtype, double) for name, dtype, *_ in feeds]
    return text, values, [(name, dtype_of(dtype)) for name, dtype in results]


def _fitted(value: Any, dtype: str, double: bool) -> Any:
    """An input in the element type that it is declared with; short floats come by their bits."""
    array = np.asarray(to_array(value))
    return array.astype(dtype_of(WIDE.get(dtype, dtype))) if double else array


def source(
    ir: Any, context: Any, program: bytes, inputs: "dict[str, Any]", bits: bool = False
) -> "dict[str, Any]":
    """`module`: an assignment of its text to `MODULE`; `inputs`: the values to call it with, as code."""
    text, values, _ = prepared(ir, context, program, inputs, {}, None)
    names = [name for name, *_ in json.loads(program)["main"]["inputs"]]
    lines = [f"{literal(each, bits)},  # {name}" for each, name in zip(values, names)]  # noqa: B905
    escaped = text.replace("\\", "\\\\")
    return {"module": np.array(f'MODULE = """\\\n{escaped}"""'), "inputs": np.array("\n".join(lines))}
