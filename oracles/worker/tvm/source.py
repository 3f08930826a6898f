"""A Relax program kept as data, as TVMScript and as what it is called with."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from oracles.worker.arrays import decoded_array
from oracles.worker.onnx.program import to_array
from oracles.worker.tvm.build import to_module
from oracles.worker.tvm.params import kind_of
from oracles.worker.tvm.walk import reads

MOST_VALUES = 64


def source(program: bytes, inputs: dict[str, Any]) -> dict[str, Any]:
    """`module`: TVMScript; main's constants that it cannot spell are parameters, bound by the lines after it.

    Those of other functions are in TVM's own JSON.
    """
    document = json.loads(program)
    name = document["facts"].get("main", "main")
    elsewhere = set().union(*(reads([graph]) for graph in document["functions"].values()))
    constants = document["constants"]
    lifted = {key: item for key, item in constants.items() if item[1] and key not in elsewhere}
    kept = {key: item for key, item in constants.items() if key not in lifted}
    main = dict(document["main"])
    main["inputs"] = main["inputs"] + [[key, item[0], item[1]] for key, item in lifted.items()]
    module = to_module({**document, "main": main, "constants": kept})
    lines = [script(module, has_data=any(item[1] for item in kept.values()))]
    if lifted:
        bound = "".join(f"    {key!r}: {constant(item)},\n" for key, item in lifted.items())
        lines.append(f"Module = relax.transform.BindParams({name!r}, {{\n{bound}}})(Module)\n")
    texts = [f"{argument(item, inputs)},  # {item[0]}" for item in document["main"]["inputs"]]
    return {
        "module": np.array("\n".join(lines)),
        "inputs": np.array("\n".join(texts)),
        "entry": np.array(name),
    }


def constant(item: list[Any]) -> str:
    """Write a constant with its dtype: TVM reads a plain array of 64-bit elements as 32-bit ones."""
    return f"relax.const({literal(decoded_array(*item))}, {item[0]!r})"


def argument(item: list[Any], inputs: dict[str, Any]) -> str:
    """Write the virtual machine's argument for an input, or the array for a tensor."""
    array, kind = to_array(inputs[item[0]]), kind_of(item)
    if kind == "shape_type":
        return f"tvm.runtime.ShapeTuple({array.tolist()})"
    return repr(array[()].item()) if kind == "prim_type" else literal(array)


def script(module: Any, has_data: bool = False) -> str:
    """The text; the comments at its top, in which TVM says what it takes to read it, as statements."""
    lines = module.script(show_meta=has_data).splitlines()
    imports = [line[2:] for line in lines if line.startswith(("# from ", "# import "))]
    kept = [line for line in lines if not line.startswith("#")]
    return "\n".join([*imports, "", *kept]).strip() + "\n"


def literal(array: Any) -> str:
    """An expression that gives the array's bits again."""
    name, sizes = array.dtype.name, list(array.shape)
    plain = array.dtype.kind in "biuf" and int(array.dtype.isbuiltin) == 1
    if plain and 0 < array.size <= MOST_VALUES:
        return f"np.array({nested(array)}, {name!r})" + (f".reshape({sizes})" if 0 in sizes else "")
    flat = array.reshape(-1)
    if plain and array.size and bool((flat == flat[0]).all()):
        return f"np.full({sizes}, {flat[0].item()!r}, {name!r})"
    kind = repr(name) if plain else f"__import__('ml_dtypes').{name}"
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode("ascii")
    return f"np.frombuffer(base64.b64decode({data!r}), {kind}).reshape({sizes})"


def nested(array: Any) -> str:
    """Nested brackets with the shortest text of each element in its own type."""
    if array.ndim:
        return f"[{', '.join(nested(np.asarray(each)) for each in array)}]"
    value = array[()]
    return str(value) if array.dtype.kind == "f" else repr(value.item())
