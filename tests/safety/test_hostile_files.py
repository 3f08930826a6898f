"""A corpus of hostile files of every format, made by code: each has its right answer, in 5 seconds of CPU
at most.
"""

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    StringStringEntryProto,
    TensorProto,
    ValueInfoProto,
    helper,
)

from corpus.case import Case
from corpus.errors import UserError
from corpus.load import open_case
from tests.helpers.models import varint
from tests.safety.test_mutated_files import limited
from triage.cli import run

CPU_SECONDS = 5.0
REFUSED, OPENS = "refused", "opens"
Maker = Callable[[Path], Path]
"""Writes a hostile file into a folder and says where it is."""

Entry = tuple[str, str, Maker]
"""What it is called, the right answer, how it is made."""


def model(*nodes: Any, inputs: Any = (), outputs: Any = (), initializers: Any = ()) -> ModelProto:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    nodes = nodes or (helper.make_node("Relu", ["x"], ["y"]),)
    graph = helper.make_graph(list(nodes), "g", list(inputs) or [x], list(outputs) or [y], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def written(content: bytes, name: str = "model.onnx") -> Maker:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def case_with(**files: bytes | None) -> Maker:
    """A case folder of which some files are others, or gone; `_` in a name stands for a dot."""

    def make(folder: Path) -> Path:
        Case("onnx", model().SerializeToString(), {"x": np.ones(2, np.float32)}).save(folder / "case")
        for name, content in files.items():
            path = folder / "case" / name.replace("_", ".")
            path.unlink(missing_ok=True)
            if content is not None:
                path.write_bytes(content)
        return folder / "case"

    return make


# ONNX


def damaged_models() -> Iterator[Entry]:
    whole = model().SerializeToString()
    for name, content in {
        "empty": b"",
        "text": b"this is no model",
        "pickle": b"\x80\x04cos\nsystem\n(S'true'\ntR.",
        "long length": b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        "no graph": ModelProto(ir_version=8).SerializeToString(),
        "groups": b"\x0b" * 1000,
        "no UTF-8": whole.replace(b"Relu", b"\xff\xff\xff\xff"),
        "a name of no text": whole.replace(b"\x01x", b"\x01\xff"),
        "a broken field inside": whole.replace(b"\x04Relu", b"\x7fRelu"),
    }.items():
        yield f"model of {name}", REFUSED, written(content)
    for field, length in product((7, 999), ((1 << 31) - 1, 1 << 31, (1 << 64) - 1)):
        yield f"field {field} of {length}", REFUSED, written(whole + varint(field << 3 | 2) + varint(length))


def weight(element: int, dims: Sequence[int], raw: bytes = b"", **more: Any) -> TensorProto:
    return TensorProto(name="w", data_type=element, dims=dims, raw_data=raw, **more)


WEIGHTS = [
    weight(1, [-1, -7], b"1234"),
    weight(999, [3]),
    weight(0, [2]),
    weight(1, [2], bytes(4)),
    weight(1, [2], float_data=[1.0]),
    weight(8, [2], string_data=[b"\xff", b"b"]),
]
UNKNOWN = [weight(element, [1] * rank, bytes(4)) for element, rank in [(1, 33), (1, 1000), (23, 1), (27, 1)]]
"""What a release may know or not."""


def weighing(weight: TensorProto) -> ModelProto:
    return model(helper.make_node("Add", ["x", "w"], ["y"]), initializers=[weight])


def absurd_models() -> Iterator[Entry]:
    for dims in ([1 << 62], [1 << 31, 1 << 31], [1 << 40], [10**12, 10**6], [1 << 20] * 3):
        value = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)
        yield f"input of {dims}", REFUSED, written(model(inputs=[value]).SerializeToString())
        constant = TensorProto(name="w", data_type=1, dims=dims, raw_data=b"\0" * 4)
        yield f"weight of {dims}", "either", written(model(initializers=[constant]).SerializeToString())
    huge = helper.make_tensor("s", TensorProto.INT64, [2], [1 << 31, 1 << 31])
    grown = model(
        helper.make_node("Expand", ["x", "s"], ["big"]),
        helper.make_node("ReduceMax", ["big"], ["y"]),
        inputs=[helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        initializers=[huge],
    )
    yield "a huge value between two small ones", REFUSED, written(grown.SerializeToString())
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1 << 62])
    yield "a huge output", REFUSED, written(model(outputs=[result]).SerializeToString())
    itself = model(helper.make_node("F", ["x"], ["y"], domain="own"))
    itself.opset_import.append(helper.make_opsetid("own", 1))
    itself.functions.append(
        helper.make_function("own", "F", ["x"], ["y"], list(itself.graph.node), list(itself.opset_import))
    )
    ring = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Neg", ["a"], ["b"])]
    odd = {
        "a cycle": model(*ring, helper.make_node("Neg", ["b"], ["y"])),
        "a node that reads itself": model(helper.make_node("Add", ["x", "y"], ["y"])),
        "a name given twice": model(*[helper.make_node("Relu", ["x"], ["y"])] * 2),
        "an unknown operator": model(helper.make_node("Evil", ["x"], ["y"], domain="com.evil")),
        "what is not there": model(helper.make_node("Relu", ["nowhere"], ["y"])),
        "a wrong type": model(helper.make_node("And", ["x", "x"], ["y"])),
        "an input without a type": model(inputs=[ValueInfoProto(name="x")]),
        **{f"a weight {number}": weighing(weight) for number, weight in enumerate(WEIGHTS)},
        "a function that calls itself": itself,
        "a nameless node": model(NodeProto()),
        "an escape in a name": model(helper.make_node("Relu", ["x"], ["y"], name="\x1b[2J\x1b]0;owned\x07")),
        "a format in a name": model(helper.make_node("Relu", ["x"], ["y"], name="{0.__class__}%s%n")),
        "a long name": model(helper.make_node("Relu", ["x"], ["y"], name="n" * 1_000_000)),
    }
    for name, made in odd.items():
        yield f"model with {name}", OPENS, written(made.SerializeToString())
    for number, weight in enumerate(UNKNOWN):
        yield (
            f"model with an unknown weight {number}",
            "either",
            written(weighing(weight).SerializeToString()),
        )
    later, sparse = model(), model()
    later.opset_import[0].version = 1 << 62
    sparse.graph.sparse_initializer.add()
    yield "an opset that no release has", "either", written(later.SerializeToString())
    yield "model with an empty sparse weight", "either", written(sparse.SerializeToString())
    for depth in (5, 10):
        yield f"bodies {depth} deep", "either", written(nested(depth).SerializeToString())


def nested(depth: int) -> ModelProto:
    graph = GraphProto(name="leaf")
    for _ in range(depth):
        holder = helper.make_node("If", ["c"], ["o"], then_branch=graph, else_branch=graph)
        graph = helper.make_graph([holder], "g", [], [helper.make_tensor_value_info("o", 1, [1])])
        if graph.ByteSize() > 4 << 20:
            break
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def external_data() -> Iterator[Entry]:
    places = ["../secret", "/etc/passwd", "a/../../secret", "..", "C:\\secret", "..\\secret", "/dev/zero"]
    places += ["", "a\0b", "model.onnx", "missing.bin", "a" * 5000, "link", "fifo", "loop", "folder"]
    for place in places:
        yield f"weights at {place[:30]!r}", REFUSED, external(place)


def external(place: str) -> Maker:
    def make(folder: Path) -> Path:
        tensor = TensorProto(name="w", data_type=1, dims=[2], data_location=TensorProto.EXTERNAL)
        tensor.external_data.append(StringStringEntryProto(key="location", value=place))
        (folder / "sub").mkdir()
        (folder / "sub/folder").mkdir()
        (folder / "secret").write_bytes(bytes(8))
        (folder / "sub/link").symlink_to("../secret")
        (folder / "sub/loop").symlink_to("loop")
        os.mkfifo(folder / "sub/fifo")
        path = folder / "sub/model.onnx"
        add = helper.make_node("Add", ["x", "w"], ["y"])
        path.write_bytes(model(add, initializers=[tensor]).SerializeToString())
        return path

    return make


# Case folders and inputs


def case_files() -> Iterator[Entry]:
    odd: dict[str, list[Any]] = {
        "version": [99, "1"],
        "format": ["../../x", 7, ["onnx"], None],
        "target": [7, ["ort"], "@@@", "ort@python"],
        "settings": [[], {"a": 7}, {"a": ["b"]}, "a"],
        "origin": [7, {}],
        "notes": ["a", [7], [["a"]], {}],
    }
    for key, value in [(key, value) for key, values in odd.items() for value in values]:
        yield f"case.json with {key} {value}", REFUSED, case_with(case_json=json.dumps({key: value}).encode())
    for number, text in enumerate(
        [
            '"format": "torch"',
            '"version": 1e999',
            '"settings": {"a": "\\ud800"}',
            '"notes": ["\\u0000"]',
            '"settings": {"LD_PRELOAD": "/tmp/evil.so", "PYTHONPATH": "/tmp"}',
            f'"version": {"9" * 5000}',
        ]
    ):
        content = f'{{"format": "onnx", {text}}}'.encode()
        yield f"case.json with odd JSON {number}", "either", case_with(case_json=content)
    yield "a case without its program", REFUSED, case_with(model_onnx=None)


def inputs() -> Iterator[Entry]:
    def npz(**members: Any) -> bytes:
        file = io.BytesIO()
        np.savez(file, **members)
        return file.getvalue()

    def raw(header: bytes, data: bytes = b"") -> bytes:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data)
        return file.getvalue()

    def array(descr: str, shape: str, data: bytes = b"") -> bytes:
        return raw(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode(), data)

    sides = [helper.make_tensor_value_info(name, TensorProto.STRING, [2]) for name in "xy"]
    node = helper.make_node("Identity", ["x"], ["y"])
    texts = model(node, inputs=sides[:1], outputs=sides[1:]).SerializeToString()
    found = {
        "objects": npz(x=np.array([print, 1], object)),
        "nothing": npz(),
        "complex": npz(x=np.ones(2, complex)),
        "records": npz(x=np.zeros(2, [("a", "f4")])),
        "a date": npz(x=np.zeros(2, "M8[s]")),
        "no zip": b"PK\x05\x06",
        "a negative dim": array("'<f4'", "(-1,)"),
        "a huge dim": array("'<f4'", "(9223372036854775807,)"),
        "many dims": array("'<f4'", "(" + "2," * 5000 + ")"),
        "a lie": array("'<f4'", "(2,)"),
        "code": array("__import__('os').system('id')", "(2,)"),
        "a pickle's descr": array("'|O'", "(2,)", b"cos\nsystem\n."),
        "a cut zip": npz(x=np.ones(2, np.float32))[:-30],
        "a bomb": array("'<f4'", "(1099511627776,)", bytes(1 << 20)),
        "no header": raw(b""),
        "a deep header": raw(b"(" * 9000),
        "70 dims": array("'<f4'", str((1,) * 70), bytes(4)),
        "a bool as a dim": array("'<f4'", "(True, 2)", bytes(8)),
        "wide floats": array("'<f16'", "(2,)", bytes(32)),
        "void": array("'|V0'", "(2,)"),
    }
    for name, content in found.items():
        yield f"inputs.npz with {name}", REFUSED, case_with(inputs_npz=content)
    for name, content in {
        "text of no width": array("'<U0'", f"({1 << 62},)"),
        "beyond the last character": array("'<U1'", "(2,)", b"\xff\xff\xff\x7f" * 2),
        "half a character": array("'<U1'", "(2,)", b"\x00\xd8\x00\x00" * 2),
        "big-endian text": array("'>U1'", "(2,)", b"\x00\x11\x00\x00" * 2),
    }.items():
        yield f"text inputs with {name}", REFUSED, case_with(model_onnx=texts, inputs_npz=content)
    empty = array("'<U0'", "(2,)")
    yield "text inputs of no width", OPENS, case_with(model_onnx=texts, inputs_npz=empty)


# Graph programs


def graph_programs() -> Iterator[Entry]:
    for format in ("torch", "relax"):  # which share a reader
        main: dict[str, Any] = {
            "inputs": [["x", "float32", [2]]],
            "bindings": [["y", "torch.relu", [{"ref": "x"}], {}]],
            "outputs": ["y"],
        }
        whole = {"format": format, "version": 1, "main": main, "constants": {}, "functions": {}}
        whole |= {"opaque": {}, "facts": {}}
        name = f"program.{format}.json"
        for number, change in enumerate(changes(main)):
            text = json.dumps({**whole, **change}).encode()
            yield f"{format} program {number}", REFUSED, written(text, name)


def changes(main: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What is no program, one change each."""
    yield {"format": "other"}
    yield {"version": 2}
    for key in ("main", "constants", "functions", "opaque", "facts"):
        yield {key: 7}
    for key in ("inputs", "bindings", "outputs"):
        yield {"main": {**main, key: [7]}}
        yield {"main": {name: part for name, part in main.items() if name != key}}
    for inputs in ([["x", "object", [2]]], [["x", "float32", [None]]], [["", "float32", [2]]]):
        yield {"main": {**main, "inputs": inputs}}
    for size in (99_999_999_999, 1 << 62, -(1 << 40), {}, [], 1.5):
        yield {"main": {**main, "inputs": [["x", "float32", [size]]]}}
    for bindings in (
        [["y", "torch.relu", [{"ref": "nowhere"}], {}]],
        [["y", "torch.relu", [{"ref": "y"}], {}]],
        [["y"]],
        [["y", "torch.relu", [{"function": "nowhere"}], {}]],
    ):
        yield {"main": {**main, "bindings": bindings}}
    yield {"main": {**main, "outputs": []}}
    yield {"main": {**main, "outputs": ["nowhere"]}}
    for constant in (["float32", [2], "AAAA"], ["object", [2], ""], ["float32", [-1], ""]):
        yield {"constants": {"c": constant}}
    yield {"constants": {"x": ["float32", [0], ""]}}


def loops() -> Iterator[Entry]:
    """A program of one loop, with an extent, a size, an index, a value or a type changed."""
    yield "a loop", OPENS, written(loop(), "program.tir.json")
    changes = {
        "extent": [1 << 31, 1 << 70, "i"],
        "size": [-1, 1 << 62, 1e300],
        "index": [1 << 62, "nowhere"],
        "value": [["call_extern", "system"], json.loads("[" * 400 + "]" * 400)],
        "dtype": ["object", "float32x99999999"],
        "kind": ["nonsense"],
    }
    for number, change in enumerate({key: each} for key, values in changes.items() for each in values):
        yield f"tir program {number}", REFUSED, written(loop(**change), "program.tir.json")


def loop(
    extent: Any = 8,
    size: Any = 8,
    index: Any = "i",
    value: Any = 1.0,
    dtype: str = "float32",
    kind: str = "serial",
) -> bytes:
    function = {
        "params": [{"name": "A", "shape": [size], "dtype": dtype}],
        "returns": "void",
        "attrs": {},
        "body": [["for", "i", "int32", 0, extent, kind, {"body": [["store", "A", [index], value]]}]],
    }
    return json.dumps({"format": "tir", "version": 1, "functions": {"main": function}}).encode()


def code() -> Iterator[Entry]:
    for name in ("script.py", "program.pt2", "module.json"):
        yield f"code called {name}", REFUSED, written(b"import os; os.system('touch it-ran')", name)


ENTRIES = [
    *damaged_models(),
    *absurd_models(),
    *external_data(),
    *case_files(),
    *inputs(),
    *graph_programs(),
    *loops(),
    *code(),
]


def opened(path: Path) -> str:
    """What becomes of a file: it is a case with its names, or is refused in one line."""
    try:
        case = open_case(path)
    except UserError as error:
        line = str(error)
        return REFUSED if len(line) < 8000 and "\n" not in line else line
    return OPENS if case.case_id and case.canonical_hash else "no names"


@pytest.mark.parametrize(
    ("wanted", "make"), [entry[1:] for entry in ENTRIES], ids=[entry[0] for entry in ENTRIES]
)
def test_a_hostile_file_has_its_right_answer(tmp_path, wanted, make):
    path = make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    with limited(CPU_SECONDS):
        answer = opened(path)

    assert wanted in (answer, "either")
    assert sorted(tmp_path.rglob("*")) == before


MODELS = [entry for entry in absurd_models() if "model" in entry[0] or "release" in entry[0]]


@pytest.mark.parametrize("make", [entry[2] for entry in MODELS], ids=[entry[0] for entry in MODELS])
def test_an_odd_model_ends_a_check_and_a_reduction_in_a_verdict_or_a_line(tmp_path, make, capsys):
    path = str(make(tmp_path))
    assert run(["check", path]) in (0, 1, 2)
    words = ["reduce", path, "-o", str(tmp_path / "out"), "--check", "true", "--max-checks", "3"]
    assert run(words) in (0, 2)
    assert "Traceback" not in capsys.readouterr().err
