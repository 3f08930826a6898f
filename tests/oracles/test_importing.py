"""Foreign files: what torch and TVM make of them in the sandbox, and what is refused there in one line."""

import base64
import io
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorcrux
from corpus.errors import UserError
from corpus.formats import find_format
from corpus.graphs.program import GraphProgram
from corpus.load import Imported, open_case
from corpus.target import Target
from oracles.sandbox.sandbox import Sandbox
from oracles.sandbox.scripts import imported, open_foreign
from oracles.verdict import Limits
from oracles.worker.torch.capture import scripted
from oracles.worker.torch.exported import archive_of, is_dump, is_of_aoti, saved_beside

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
    "gradients that the script takes afterwards": (
        "model = torch.nn.Linear(2, 1, bias=False)\ninputs = (torch.ones(1, 2),)\n"
        "torch.compile(model)(*inputs).sum().backward()",
        ["t", "mm"],
        "the script calls backward",
    ),
    "what decides by values": (
        "model = lambda x: x + 1 if x.sum() > 0 else x - 1\ninputs = (torch.ones(2),)",
        ["add"],
        "the model decides by values",
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
    def main(x: R.Tensor(("n", 4), "float32"), c: R.Tensor((), "bool"), v: R.Tensor((4,), "float32")):
        n = T.int64()
        with R.dataflow():
            s = R.reshape(x, (n * 2, 2))
            t = R.reshape(s, (n, 4))
            u = R.call_tir(Module.twice, (v,), out_ty=R.Tensor((4,), "float32"))
            R.output(t, u)
        if c:
            y = R.add(t, u)
        else:
            y = R.multiply(t, R.const(2.0, "float32"))
        return y

inputs = [np.ones((2, 4), "float32"), np.array(True), np.ones(4, "float32")]
"""


def test_tvmscript_with_loops_branches_and_symbols(tvm_opener):
    program, found = opened(tvm_opener, "relax", "s.py", SCRIPT)
    assert found.notes == ()
    assert [item.shape for item in program.main.inputs] == [("n", 4), (), (4,)]
    expected = ["reshape", "reshape", "call_tir", "if", "add", "multiply"]
    assert [op.removeprefix("relax.") for op in ops(program)] == expected
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


# What torch dumps of a failing graph is told from other scripts, and is a case

DUMP = (Path(__file__).parent / "failures" / "torch_dump.txt").read_text()


def test_a_dump_is_told_from_a_script():
    assert is_dump(DUMP)
    assert not is_dump("import torch\nmodel = torch.nn.ReLU()\ninputs = (torch.ones(2),)\n")


def test_saved_inputs_are_found_beside_the_dump(tmp_path):
    assert saved_beside(str(tmp_path / "repro.py"), DUMP) is None
    (tmp_path / "checkpoints").mkdir()
    assert saved_beside(str(tmp_path / "repro.py"), DUMP) == str(tmp_path / "checkpoints")


@pytest.mark.slow
def test_a_dump_is_judged_as_a_case(tmp_path):
    (tmp_path / "fx_graph_runnable.py").write_text(DUMP)
    verdict = tensorcrux.check(tmp_path / "fx_graph_runnable.py", target="inductor", trust=True)
    assert verdict.outcome == "pass"


def test_a_dump_of_aotinductor_is_its_exported_program(tmp_path):
    torch = pytest.importorskip("torch")
    text = f"""exported_program = torch.export.load('{tmp_path}/gone/checkpoints/exported_program.pt2')
config_patches=None
if __name__ == '__main__':
    from torch._dynamo.repro.aoti import run_repro
    with torch.no_grad():
        run_repro(exported_program, config_patches=config_patches, command='minify')
"""
    name = str(tmp_path / "minifier_launcher.py")
    assert is_of_aoti(text)
    assert not is_of_aoti(DUMP)
    with pytest.raises(FileNotFoundError, match="is not there"):
        archive_of(name, text)
    (tmp_path / "checkpoints").mkdir()
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(3),))
    torch.export.save(program, tmp_path / "checkpoints" / "exported_program.pt2")
    found = scripted(name, text)
    assert [tuple(each.shape) for each in found.args] == [(3,)]
