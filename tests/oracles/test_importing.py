"""Foreign files: what torch and TVM make of them in the sandbox, and what is refused there in one line."""

import base64
import io
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus.errors import UserError
from corpus.formats import find_format
from corpus.graphs.program import GraphProgram
from corpus.load import Imported, open_case
from corpus.target import Target
from oracles.sandbox.sandbox import Sandbox
from oracles.sandbox.scripts import imported, open_foreign
from oracles.verdict import Limits

LIMITS = Limits(60.0, 180.0, 4 << 30)


def opened(sandbox: Sandbox, format: str, name: str, content: str | bytes) -> tuple[GraphProgram, Imported]:
    data = content.encode() if isinstance(content, str) else content
    found = imported(sandbox, format, Path(name), base64.b64encode(data).decode())
    program = find_format(format).parse(found.program)
    return program, found


def ops(program: GraphProgram) -> list[str]:
    return [binding.op for binding in program.main.walk()]


SCRIPTS = {
    "a module with weights": (
        "model = torch.nn.Linear(3, 2)\ninputs = (torch.ones(2, 3),)",
        ["torch._C._nn.linear"],
        "",
    ),
    "a script that compiles something itself": (
        "import sys\nx = torch.ones(3)\ntorch.compile(lambda a, b: a // b)(x, x + 1)\nsys.exit(1)",
        ["operator.floordiv"],
        "",
    ),
    "what Dynamo cannot trace": (
        "def model(x):\n    torch._dynamo.graph_break()\n    return x.exp() + 1\ninputs = [torch.ones(2)]",
        ["exp", "add"],
        "",
    ),
    "control flow keeps its graphs": (
        "model = lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))\ninputs = (torch.ones(2),)",
        ["Tensor.sum", "operator.gt", "torch.ops.higher_order.cond", "torch.sin", "torch.cos"],
        "",
    ),
    "gradients that the model takes": (
        "w = torch.ones(2, 2, requires_grad=True)\n"
        "model = lambda x: torch.autograd.grad((x @ w).exp().sum(), w)[0]\ninputs = (torch.ones(2, 2),)",
        ["mm", "exp", "mul", "mm"],
        "",
    ),
    "gradients that the script takes afterwards": (
        "model = torch.nn.Linear(2, 1, bias=False)\ninputs = (torch.ones(1, 2),)\n"
        "torch.compile(model)(*inputs).sum().backward()",
        ["t", "mm"],
        "the script calls backward",
    ),
    "positional and keyword arguments": (
        "def model(x, *, n):\n    return x * n\ninputs = ((torch.ones(2),), {'n': 3})",
        ["operator.mul"],
        "",
    ),
    "what decides by values": (
        "model = lambda x: x + 1 if x.sum() > 0 else x - 1\ninputs = (torch.ones(2),)",
        ["add"],
        "the model decides by values",
    ),
    "autocast": (
        "w = torch.ones(2, 2)\ndef model(x):\n    with torch.autocast('cpu'):\n        return x @ w\n"
        "inputs = (torch.ones(2, 2),)",
        ["_to_copy", "_to_copy", "mm"],
        "",
    ),
    "parts of complex numbers": (
        "model = lambda x: x.real\ninputs = (torch.ones(2) * 1j,)",
        ["Tensor.real"],
        "",
    ),
    "a failure when it runs": (
        "model = lambda x: x // 0\ninputs = (torch.ones(2).int(),)",
        ["operator.floordiv"],
        "",
    ),
}


@pytest.mark.parametrize(("text", "wanted", "note"), SCRIPTS.values(), ids=SCRIPTS)
def test_kinds_of_scripts(torch_sandbox, text, wanted, note):
    program, found = opened(torch_sandbox, "torch", "s.py", f"import torch\n{text}")
    words = [op.split(".")[3] if op.startswith("torch.ops.aten") else op for op in ops(program)]
    assert [word for word in words if word in wanted][: len(wanted)] == wanted
    assert any(note in each for each in found.notes) if note else not found.notes


def test_dims_of_any_size_keep_their_names(torch_sandbox):
    text = """
import torch
@torch.compile(dynamic=True)
def f(x, y):
    return torch.cat([x, y]).view(-1, x.shape[0], 3)
f(torch.ones(4, 3), torch.ones(8, 3))
"""
    program, found = opened(torch_sandbox, "torch", "s.py", text)
    (first, second) = (item.shape for item in program.main.inputs)
    assert isinstance(first[0], str)
    assert first[1] == second[1] != first[0]
    assert "torch.ops.aten.sym_size.int" in ops(program)
    inputs = {name: ("float32", np.shape(value)) for name, value in found.inputs.items()}
    told = torch_sandbox.ask("describe", program.to_bytes().decode(), inputs)
    assert sorted(told["types"]["cat"][1][0].split(" + ")) == sorted([first[0], second[0]])


def test_how_an_input_lies_in_memory_is_kept(torch_sandbox):
    text = "import torch\nmodel = torch.exp\ninputs = (torch.ones(4, 6).t()[::2],)"
    program, _ = opened(torch_sandbox, "torch", "s.py", text)
    assert program.main.inputs[0].declared == {"layout": [[1, 1], [0, 2]]}
    again = find_format("torch").parse(program.to_bytes())
    assert again.main.inputs == program.main.inputs


def test_an_exported_program(torch_sandbox):
    torch = pytest.importorskip("torch")
    buffer = io.BytesIO()
    torch.export.save(torch.export.export(torch.nn.Linear(3, 3), (torch.eye(3),)), buffer)
    program, found = opened(torch_sandbox, "torch", "p.pt2", buffer.getvalue())
    assert [op.split(".")[-2] for op in ops(program)] == ["linear"]
    assert [np.shape(value) for value in found.inputs.values()] == [(3, 3)]


SCRIPT = """
import numpy as np
from tvm.script import ir as I, relax as R, tirx as T

@I.ir_module
class Module:
    @T.prim_func
    def twice(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        for i in range(4):
            B[i] = A[i] + A[i]

    @R.function
    def helper(p: R.Tensor(("m", 4), "float32")) -> R.Tensor(("m", 4), "float32"):
        q = R.nn.relu(p)
        return q

    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool"), v: R.Tensor((4,), "float32")):
        n = T.int64()
        cls = Module
        with R.dataflow():
            s = R.reshape(x, (n * 2, 2))
            t = R.reshape(s, (n, 4))
            u = R.call_tir(cls.twice, (v,), out_ty=R.Tensor((4,), "float32"))
            w = R.add(t, R.const(np.arange(4, dtype="float32"), "float32"))
            R.output(u, w)
        h = cls.helper(w)
        if c:
            y = R.add(h, u)
        else:
            y = R.multiply(h, R.const(2.0, "float32"))
        return y

inputs = [np.ones((2, 4), "float32"), np.array(True), np.ones(4, "float32")]
"""


def test_tvmscript_with_functions_branches_and_symbols(tvm_opener):
    program, found = opened(tvm_opener, "relax", "s.py", SCRIPT)
    assert found.notes == ()
    assert [item.shape for item in program.main.inputs] == [("n", 4), (), (4,)]
    called = ["relax.reshape", "relax.reshape", "relax.call_tir", "relax.add", "call", "if"]
    assert ops(program) == [*called, "relax.add", "relax.multiply"]
    assert list(program.functions) == ["helper"]
    assert list(program.loops) == ["twice"]
    assert len(found.inputs) == 3


def test_what_tvm_infers_of_it_is_told(tvm_opener):
    program, _ = opened(tvm_opener, "relax", "s.py", SCRIPT)
    told = tvm_opener.ask("describe", program.to_bytes().decode(), {})["types"]
    assert told["t"] == ["float32", ["n", 4]]
    assert told["s"] == ["float32", ["n * 2", 2]]
    wrong = program.to_bytes().replace(b'["v", "float32", [4]]', b'["v", "int32", [3]]')
    assert "error" in tvm_opener.ask("describe", wrong.decode(), {})


REFUSED: list[tuple[str, str, str, str]] = [
    ("torch", "s.py", "import torch", "defines no `model` and `inputs`"),
    ("torch", "s.py", "def (", "SyntaxError"),
    ("torch", "s.py", "open('/tmp/crux-was-here', 'w')", "Read-only file system"),
    (
        "torch",
        "s.py",
        "import torch\nmodel = torch.nn.ReLU\ninputs = (torch.ones(1),)",
        "make it an instance",
    ),
    (
        "torch",
        "s.py",
        "import torch\n@torch.library.custom_op('own::f', mutates_args=())\ndef f(x: torch.Tensor)"
        " -> torch.Tensor:\n    return x + 1\nf.register_fake(torch.empty_like)\nmodel = f\n"
        "inputs = (torch.ones(1),)",
        "an operator of the program's own",
    ),
    ("torch", "p.pt2", "no zip", "not a zip"),
    ("relax", "s.py", "import tvm", "makes no module"),
    (
        "relax",
        "s.py",
        "import tvm\nfrom tvm.script import ir as I\n@I.ir_module\nclass M:\n    x = nothing\n",
        "Error",
    ),
    ("relax", "m.json", "{}", "Error"),
]


@pytest.mark.parametrize(("format", "name", "text", "word"), REFUSED)
def test_what_holds_no_program_is_refused_in_one_line(format, name, text, word, request):
    sandbox: Any = request.getfixturevalue("tvm_opener" if format == "relax" else "torch_sandbox")
    with pytest.raises(UserError) as refused:
        opened(sandbox, format, name, text)
    line = str(refused.value)
    assert word in line
    assert "\n" not in line
    assert not Path("/tmp/crux-was-here").exists()


@pytest.mark.slow
@pytest.mark.parametrize("text", ["while True: pass", "import os; os._exit(0)"])
def test_a_script_that_never_ends_or_ends_its_process_is_refused(text):
    with (
        Sandbox("torch", limits=Limits(5.0, 5.0, 4 << 30)) as sandbox,
        pytest.raises(UserError, match="did not end in 5 seconds or ended its process"),
    ):
        opened(sandbox, "torch", "s.py", text)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "module.json"
    with open(path, "wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(UserError, match="over"):
        open_case(path, trust=True, importer=partial(open_foreign, Target("tvm"), LIMITS))
