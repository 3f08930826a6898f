"""A Relax program kept as data, as TVMScript and as what it is called with."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from oracles.in_worker.arrays import decoded_array
from oracles.in_worker.onnx_program import to_array
from oracles.in_worker.relax_graph import to_module

MOST_VALUES = 64


def source(program: bytes, inputs: dict[str, Any]) -> dict[str, Any]:
    """`module`: TVMScript; constants that it cannot spell are parameters, bound by the lines after it."""
    document = json.loads(program)
    lifted = {name: item for name, item in document["constants"].items() if item[1]}
    kept = {name: item for name, item in document["constants"].items() if not item[1]}
    main = dict(document["main"])
    main["inputs"] = main["inputs"] + [[name, item[0], item[1]] for name, item in lifted.items()]
    module = to_module({**document, "main": main, "constants": kept})
    lines = [script(module)]
    if lifted:
        name = document["facts"].get("main", "main")
        bound = [f"    {key!r}: {literal(decoded_array(*item))},\n" for key, item in lifted.items()]
        lines.append(f"Module = relax.transform.BindParams({name!r}, {{\n{''.join(bound)}}})(Module)\n")
    given = [to_array(inputs[item[0]]) for item in document["main"]["inputs"]]
    names = [item[0] for item in document["main"]["inputs"]]
    texts = [f"{literal(value)},  # {names[at]}" for at, value in enumerate(given)]
    return {"module": np.array("\n".join(lines)), "inputs": np.array("\n".join(texts))}


def script(module: Any) -> str:
    """The text; the comments at its top, in which TVM says what it takes to read it, as statements."""
    lines = module.script(show_meta=False).splitlines()
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
