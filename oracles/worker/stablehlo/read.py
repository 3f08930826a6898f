"""StableHLO's modules as documents, and tensors' types and values as MLIR and documents write them."""

import re
from typing import Any, Iterable, Iterator  # noqa: UP035 (Python 3.8)

import ml_dtypes
import numpy as np

from oracles.worker.arrays import encoded_array

ELEMENTS = {
    "bool": "i1",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"ui{bits}" for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"f{bits}" for bits in (16, 32, 64)},
    "bfloat16": "bf16",
    "complex64": "complex<f32>",
    "complex128": "complex<f64>",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e4m3fnuz": "f8E4M3FNUZ",
    "float8_e4m3b11fnuz": "f8E4M3B11FNUZ",
    "float8_e5m2": "f8E5M2",
    "float8_e5m2fnuz": "f8E5M2FNUZ",
}
"""MLIR's element types by numpy's names."""
DTYPES = {text: name for name, text in ELEMENTS.items()}
WIDE = {"float16": "float64", "bfloat16": "float64", "float32": "float64", "complex64": "complex128"}
"""What computes in float64 instead."""


class NotData(Exception):
    """A module, or a document, holds what crux takes no part of."""


def dtype_of(name: str) -> Any:
    """numpy's or ml_dtypes' dtype of that name; NotData where a module can hold none such."""
    if name not in ELEMENTS:
        raise NotData(f"no tensor holds {name[:40]!r}")
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def type_text(dims: Iterable[int], dtype: str) -> str:
    """The tensor type as MLIR writes it."""
    dtype_of(dtype)
    return f"tensor<{''.join(f'{int(dim)}x' for dim in dims)}{ELEMENTS[dtype]}>"


def told_type(ir: Any, type_: Any) -> "tuple[list[int], str]":
    """The dims and numpy's name of the element type; NotData for what is no tensor of static dims."""
    if not isinstance(type_, ir.RankedTensorType):
        raise NotData(f"a value is of type {str(type_)[:80]}; crux takes tensors only")
    dtype = DTYPES.get(str(type_.element_type))
    if dtype is None or type_.encoding is not None:
        raise NotData(f"a value is of type {str(type_)[:80]}, which numpy cannot hold")
    if not type_.has_static_shape:
        raise NotData(f"a value is of type {str(type_)[:80]}; write its dims as numbers (refine the module)")
    return list(type_.shape), dtype


def constant_text(array: Any) -> str:
    """The operation that gives an array; one number where all are the same."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.size and len({each.tobytes() for each in flat[: 1 << 16]}) == 1 and (flat == flat[0]).all():
        flat = flat[:1]
    if array.dtype == np.bool_:
        words = [str(bool(each)).lower() for each in flat]
        body = _nested(words, array.shape) if len(words) == array.size and array.ndim else "".join(words[:1])
    else:
        body = f'"0x{flat.tobytes().hex()}"' if flat.size else ""
    return f"%0 = stablehlo.constant dense<{body}> : {type_text(array.shape, array.dtype.name)}"


def _nested(words: "list[str]", shape: "tuple[int, ...]") -> str:
    if not shape:
        return words[0]
    step = len(words) // shape[0] if shape[0] else 0
    parts = (_nested(words[at * step : (at + 1) * step], shape[1:]) for at in range(shape[0]))
    return f"[{', '.join(parts)}]"


NUMBER = re.compile(r"0x[0-9A-Fa-f]+|true|false|[-+]?[\d.]+(?:[eE][-+]?\d+)?")


def array_of(text: str, dims: "list[int]", dtype: str) -> Any:
    """The array of a constant by its text: the bindings know no attribute of complex numbers."""
    kind = dtype_of(dtype)
    if "constant dense<" not in text:
        raise NotData("the values of a constant are not in the text; print the module without eliding them")
    body = text[text.index("dense<") + len("dense<") : text.rindex("> : ")]
    if body.startswith('"0x'):
        found = np.frombuffer(bytes.fromhex(body[3:-1]), kind)
    else:
        words = NUMBER.findall(body)
        part = np.dtype(f"float{kind.itemsize * 4}") if kind.kind == "c" else kind
        found = np.array([_number(word, part) for word in words], part).view(kind)
    whole = found if found.size != 1 else np.broadcast_to(found.reshape(()), dims)
    return whole.reshape(dims)


def _number(word: str, kind: Any) -> Any:
    if word in ("true", "false"):
        return word == "true"
    if word.startswith("0x"):
        return np.frombuffer(int(word, 16).to_bytes(kind.itemsize, "little"), kind)[0]
    return int(word) if kind.kind in "iu" else np.array(float(word)).astype(kind)[()]


BYTECODE = b"ML\xefR"
MOST_CONSTANT = 64 << 20
"""Bytes of all constants of a module."""
RETURNS = ("func.return", "stablehlo.return")
DIALECTS = ("stablehlo.", "chlo.")
SIZES = frozenset({"limit_indices", "slice_sizes"})
"""Attributes whose numbers are dims: they change with those."""
MEMBER, CALL = "member", "call"


def capture(ir: Any, context: Any, content: bytes) -> "dict[str, Any]":
    """The document of a module, or an `error` in words."""
    try:
        if content.startswith(BYTECODE):
            raise NotData("MLIR's bytecode; write it as text (`stablehlo-translate --deserialize`)")
        with context, ir.Location.unknown():
            return Reader(ir, ir.Module.parse(content.decode())).document()
    except (NotData, UnicodeDecodeError) as error:
        return {"error": f"{error}"}
    except ir.MLIRError as error:
        return {"error": in_short(str(error))}


def in_short(text: str) -> str:
    """The first thing that a diagnostic says, without the head and the dump of the operation."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = next((line for line in lines if line.startswith("error:")), lines[0] if lines else "")
    return first.replace("error: unknown: ", "").replace('error: "-":', "line ").replace("error: ", "")


def attributes_of(operation: Any) -> "Iterator[tuple[str, Any]]":
    """The names and attributes of an operation; older bindings give them in a record."""
    for each in operation.attributes:
        yield (each, operation.attributes[each]) if isinstance(each, str) else (each.name, each.attr)


class Reader:
    """Gives every value of one module a name, in order."""

    def __init__(self, ir: Any, module: Any) -> None:
        self.ir = ir
        self.module = module
        self.constants: dict[str, Any] = {}
        self.names: dict[Any, str] = {}
        self.taken: set[str] = set()
        self.counts: dict[str, int] = {}
        self.bytes = 0
        self.left_out: set[str] = set()

    def document(self) -> "dict[str, Any]":
        """What the module holds, as `corpus/graphs/program.py` keeps it."""
        functions = dict(self._functions())
        main = self._entry(functions)
        self.taken.update(functions)
        graphs = {name: self.graph(self._block(each), "arg") for name, each in functions.items()}
        found = graphs.pop(main)
        found["outputs"] = list(dict.fromkeys(found["outputs"]))
        if not found["outputs"]:
            raise NotData(f"the function {main!r} returns nothing")
        notes = [f"left out: {', '.join(sorted(self.left_out))}"] if self.left_out else []
        return {"main": found, "constants": self.constants, "functions": graphs, "notes": notes}

    def _functions(self) -> "Iterator[tuple[str, Any]]":
        for operation in (each.operation for each in self.module.body.operations):
            if operation.name == "sdy.mesh":
                self.left_out.add("sdy.mesh")
            elif operation.name != "func.func":
                raise NotData(f"the module holds {operation.name}; crux takes functions (func.func)")
            else:
                yield self._text(operation, "sym_name"), operation

    def _entry(self, functions: "dict[str, Any]") -> str:
        public = [name for name, each in functions.items() if "private" not in self._visibility(each)]
        if "main" in functions or len(public) == 1:
            return "main" if "main" in functions else public[0]
        raise NotData(f"the module has {len(public)} public functions; call the one to run `main`")

    def _visibility(self, function: Any) -> str:
        return next((str(each) for name, each in attributes_of(function) if name == "sym_visibility"), "")

    def _text(self, operation: Any, name: str) -> str:
        return str(operation.attributes[name].value)

    def _block(self, function: Any) -> Any:
        for key, found in attributes_of(function):
            if key in ("arg_attrs", "res_attrs"):
                self.left_out.update(word for word in ("mhlo.sharding", "sdy.sharding") if word in str(found))
        blocks = list(function.regions[0].blocks)
        if len(blocks) != 1:
            name = self._text(function, "sym_name")
            raise NotData(f"the function {name!r} has {len(blocks)} blocks; crux takes one")
        return blocks[0]

    def name(self, value: Any, letter: str) -> str:
        """A new name for a value; for a tuple of them where there is none."""
        while True:
            count = self.counts[letter] = self.counts.get(letter, -1) + 1
            found = f"{letter}{count}"
            if found not in self.taken:
                self.taken.add(found)
                if value is not None:
                    self.names[value] = found
                return found

    def graph(self, block: Any, letter: str) -> "dict[str, Any]":
        """One block: what flows in, its operations but for constants, what comes out."""
        inputs = []
        for argument in block.arguments:
            dims, dtype = told_type(self.ir, argument.type)
            inputs.append([self.name(argument, letter), dtype, dims])
        bindings: list[Any] = []
        outputs: list[str] = []
        for operation in (each.operation for each in block.operations):
            if operation.name in RETURNS:
                outputs = [self.names[each] for each in operation.operands]
            elif operation.name == "stablehlo.constant":
                self._constant(operation)
            else:
                bindings += self._bindings(operation)
        return {"inputs": inputs, "bindings": bindings, "outputs": outputs}

    def _constant(self, operation: Any) -> None:
        dims, dtype = told_type(self.ir, operation.results[0].type)
        size = 1
        for dim in (*dims, 16):
            size *= dim
        self.bytes += size
        if self.bytes > MOST_CONSTANT:
            raise NotData(f"its constants take more than {MOST_CONSTANT >> 20} MiB; make them arguments")
        value = array_of(operation.get_asm(), dims, dtype)
        self.constants[self.name(operation.results[0], "c")] = encoded_array(value)

    def _bindings(self, operation: Any) -> "Iterator[list[Any]]":
        name, kwargs = operation.name, dict(self._kwargs(operation))
        if name != "func.call" and not name.startswith(DIALECTS):
            raise NotData(f"it has the operation {name}; crux takes those of stablehlo, chlo, and func.call")
        args: list[Any] = [{"ref": self.names[each]} for each in operation.operands]
        if name == "func.call":
            name, args = CALL, [{"function": str(operation.attributes["callee"])[1:].strip('"')}, *args]
        elif name == "stablehlo.while":
            args = [args]  # its bodies take these
        types = [told_type(self.ir, each.type) for each in operation.results]
        if name != CALL and not self._is_inferred(operation):
            told = [{"tensor": [dims, dtype]} for dims, dtype in types]
            kwargs["type"] = told[0] if len(told) == 1 else told
        results = list(operation.results)
        whole = self.name(results[0] if len(results) == 1 else None, "v")
        members = [self.name(each, "v") for each in results] if len(results) != 1 else []
        regions = [self.graph(self._only(each), "b") for each in operation.regions]
        if regions:
            kwargs["regions"] = [{"graph": each} for each in regions]
        yield [whole, name, args, kwargs]
        for place, member in enumerate(members):
            yield [member, MEMBER, [{"ref": whole}, place], {}]

    def _only(self, region: Any) -> Any:
        blocks = list(region.blocks)
        if len(blocks) != 1:
            raise NotData(f"a region has {len(blocks)} blocks; crux takes one")
        return blocks[0]

    def _kwargs(self, operation: Any) -> "Iterator[tuple[str, Any]]":
        for name, found in attributes_of(operation):
            if name.startswith("sdy."):
                self.left_out.add(name)
            elif operation.name != "func.call" or name != "callee":
                is_size = name in SIZES and isinstance(found, self.ir.DenseI64ArrayAttr)
                yield name, list(found) if is_size else {"mlir": str(found)}

    def _is_inferred(self, operation: Any) -> bool:
        """Whether MLIR finds the types of its results by itself."""
        if len(operation.regions):
            return False
        try:
            other = self.ir.Operation.create(
                operation.name,
                operands=list(operation.operands),
                attributes=dict(attributes_of(operation)),
                infer_type=True,
                ip=False,
            )
        except self.ir.MLIRError:
            return False
        return [each.type for each in other.results] == [each.type for each in operation.results]
