"""Sixty scripts in the styles in which people post them: what fails, told in as many ways as threads tell it.

A style is a text with places for a model's code (`$MODEL`, which makes `model` and `feeds`), for the calls that
show a difference (`$BOTH`, which makes `plain` and `fused`), and for imports.
"""

from __future__ import annotations

import json
import textwrap
from dataclasses import dataclass

IMPORTS = "import numpy as np\nimport onnx\nimport onnxruntime as ort\nfrom onnx import TensorProto, helper, numpy_helper\n"


def of_nodes(nodes: str, inputs: str, outputs: str, weights: str, feeds: str) -> str:
    """The code of a model made by onnx's helpers."""
    return f"""\
graph = helper.make_graph(
    [{nodes}],
    "repro",
    [{inputs}],
    [{outputs}],
    [{weights}],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
feeds = {feeds}
"""


def value(name: str, kind: str, shape: str) -> str:
    """The code of a value's type."""
    return f'helper.make_tensor_value_info("{name}", TensorProto.{kind}, {shape})'


PAD = of_nodes(
    'helper.make_node("Pad", ["x", "pads"], ["p"]), helper.make_node("MaxPool", ["p"], ["y"], kernel_shape=[2, 2])',
    value("x", "FLOAT", "[1, 1, 3, 3]"),
    value("y", "FLOAT", "None"),
    'numpy_helper.from_array(np.array([0, 0, 1, 1, 0, 0, 1, 1]), "pads")',
    '{"x": -np.ones((1, 1, 3, 3), np.float32)}',
)
DIV = of_nodes(
    'helper.make_node("Div", ["one", "x"], ["t"]), helper.make_node("Mul", ["t", "x"], ["y"])',
    value("x", "INT32", "[3]"),
    value("y", "INT32", "[3]"),
    'helper.make_tensor("one", TensorProto.INT32, [1], [1])',
    '{"x": np.array([2, 3, 4], dtype=np.int32)}',
)
CRASH = of_nodes(
    'helper.make_node("Div", ["x", "w"], ["y"])',
    value("x", "INT64", "[1]"),
    value("y", "INT64", "[1]"),
    'helper.make_tensor("w", TensorProto.INT64, [1], [-1])',
    '{"x": np.array([np.iinfo(np.int64).min])}',
)
REFUSED = of_nodes(
    'helper.make_node("Pad", ["x", "w"], ["t"]), helper.make_node("MaxPool", ["t"], ["y"], kernel_shape=[2])',
    value("x", "FLOAT", "[1, 1, 1]"),
    value("y", "FLOAT", "[1, 1, 2]"),
    'helper.make_tensor("w", TensorProto.INT64, [6], [0, 0, 0, 0, 0, 2])',
    '{"x": np.zeros((1, 1, 1), np.float32)}',
)
BOTH = """\
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
plain = ort.InferenceSession(model.SerializeToString(), options).run(None, feeds)[0]
fused = ort.InferenceSession(model.SerializeToString()).run(None, feeds)[0]
"""
ONE = "session = ort.InferenceSession(model.SerializeToString())\nprint(session.run(None, feeds))\n"
TAKE = "import torch\n\ndef f(x, i):\n    return torch.take(x, i)\n\nargs = torch.tensor([0.5, 1.5, 2.5]), torch.tensor(1)\n"
MOVED = """\
import torch

def moved(x, slots):
    y = torch.tanh(x)
    return torch.index_put(y, (slots,), y)

torch.manual_seed(0)
x, slots = torch.randn(64), torch.randperm(64)
"""
ELU = """\
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.ops.aten.elu(x, 1.0, 1.0, 0.5)

net, x = Net().eval(), torch.tensor([1.0, -2.0, 3.0])
"""
RMS = """\
import numpy as np
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((1,), "float32"), w: R.Tensor((1,), "float32")):
        with R.dataflow():
            y = R.nn.rms_norm(x, w, axes=[-1], epsilon=0.001)
            R.output(y)
        return y
"""
LESS = """\
import tvm
from tvm.script import ir as I
from tvm.script import tirx as T

@I.ir_module
class Module:
    @T.prim_func
    def main():
        if T.LT(T.uint8(0), T.uint8(1)):
            T.evaluate(0)

"""


@dataclass(frozen=True)
class Posted:
    """A posted script: its text, the file's suffix, what it complains of, and the target of the case that fails.

    Without a target nothing that fails is a program of a framework's, and the script itself is reduced.
    """

    style: str
    text: str
    kind: str
    target: str
    suffix: str = ".py"


def indented(code: str, by: int = 4) -> str:
    """Code within a block."""
    return textwrap.indent(code, " " * by)


def markdown(
    *blocks: str, before: str = "### Describe the issue\n\nIt is wrong.\n", language: str = "python"
) -> str:
    """An issue's text with fenced blocks."""
    return before + "\n".join(f"\n```{language}\n{block}```\nand then" for block in blocks)


def console(code: str) -> str:
    """What a console shows of code."""
    lines = code.splitlines()
    return "\n".join(
        f"... {line}" if line.startswith((" ", "]", ")")) or not line else f">>> {line}" for line in lines
    )


def cells(code: str) -> str:
    """What a notebook's console shows of code whose lines are whole statements."""
    return "\n".join(f"In [{at}]: {line}\n" for at, line in enumerate(code.splitlines(), 1))


def notebook(*codes: str) -> str:
    """A notebook's file."""
    found = [{"cell_type": "code", "source": code.splitlines(True)} for code in codes]
    return json.dumps({"cells": [{"cell_type": "markdown", "source": ["# Repro"]}, *found], "nbformat": 4})


FLAT = (
    "import onnx; import numpy as np; import onnxruntime as ort; from onnx import helper, numpy_helper, TensorProto\n"
    + "".join(
        f"{line}\n"
        for line in (
            " ".join(each.split())
            for each in PAD.replace("graph = helper.make_graph(\n", "graph = helper.make_graph(")
            .replace(",\n", ", ")
            .replace("\n)", ")")
            .splitlines()
        )
    )
)
VERSIONS = "\n| package | version |\n|---|---|\n| onnxruntime | 1.32.0 |\n\n```\nonnxruntime==1.32.0\nnumpy==2.4.6\n```\n"
TRACE = '\n```\nTraceback (most recent call last):\n  File "a.py", line 3, in <module>\n    run()\nAssertionError: no\n```\n'


def of_onnxruntime() -> list[Posted]:
    """Scripts about ONNX Runtime."""
    pad, div, mismatch = IMPORTS + PAD, IMPORTS + DIV, "exception"
    checks = "np.testing.assert_allclose(plain, fused)\n"
    loops = "for seed in range(3):\n    rng = np.random.default_rng(seed)\n    feeds = {'x': -rng.random((1, 1, 3, 3), np.float32) - 1}\n"
    child = f"import subprocess, sys, textwrap\ncode = '''{IMPORTS}{CRASH}{ONE}'''\ndone = subprocess.run([sys.executable, '-c', code])\nprint('returncode', done.returncode)\n"
    spawn = f"import multiprocessing as mp\n{IMPORTS}\ndef work():\n{indented(CRASH + ONE)}\nif __name__ == '__main__':\n    p = mp.get_context('spawn').Process(target=work)\n    p.start(); p.join()\n    print(p.exitcode)\n"
    saved = "onnx.save(model, 'model.onnx')\n"
    from_file = BOTH.replace("model.SerializeToString()", "'model.onnx'")
    posted = {
        "flat, assert_allclose": (pad + BOTH + checks, mismatch),
        "prints allclose": (div + BOTH + "print('same:', np.allclose(plain, fused))\n", "difference"),
        "prints the largest difference and exits with 1": (
            pad
            + BOTH
            + "import sys\nd = np.abs(plain - fused).max()\nprint('max diff', d)\nsys.exit(int(d > 1e-5))\n",
            "exit",
        ),
        "main and a guard": (
            f"{IMPORTS}\ndef main():\n{indented(PAD + BOTH)}    assert np.array_equal(plain, fused), 'MISMATCH'\n\nif __name__ == '__main__':\n    main()\n",
            mismatch,
        ),
        "argparse": (
            f"import argparse\n{IMPORTS}\nparser = argparse.ArgumentParser()\nparser.add_argument('--rtol', type=float, default=1e-3)\nargs = parser.parse_args()\n{DIV}{BOTH}np.testing.assert_allclose(plain, fused, rtol=args.rtol)\n",
            mismatch,
        ),
        "click-like main returning a code": (
            f"import sys\n{IMPORTS}\ndef main(argv=None) -> int:\n{indented(DIV + BOTH)}    return 0 if (plain == fused).all() else 2\n\nsys.exit(main(sys.argv[1:]))\n",
            "exit",
        ),
        "a class with steps": (
            f"{IMPORTS}\nclass Repro:\n    def build(self):\n{indented(PAD, 8)}        self.model, self.feeds = model, feeds\n    def run(self, level):\n        o = ort.SessionOptions()\n        o.graph_optimization_level = level\n        return ort.InferenceSession(self.model.SerializeToString(), o).run(None, self.feeds)\n    def check(self):\n        L = ort.GraphOptimizationLevel\n        np.testing.assert_array_equal(self.run(L.ORT_DISABLE_ALL)[0], self.run(L.ORT_ENABLE_ALL)[0])\n\nr = Repro()\nr.build()\nr.check()\n",
            mismatch,
        ),
        "unittest": (
            f"import unittest\n{IMPORTS}\nclass TestPad(unittest.TestCase):\n    def test_same(self):\n{indented(PAD + BOTH, 8)}        np.testing.assert_allclose(plain, fused)\n\nif __name__ == '__main__':\n    unittest.main()\n",
            mismatch,
        ),
        "unittest without main": (
            f"import unittest\n{IMPORTS}\nclass TestDiv(unittest.TestCase):\n    def setUp(self):\n        self.rtol = 0\n    def test_same(self):\n{indented(DIV + BOTH, 8)}        self.assertEqual(plain.tolist(), fused.tolist())\n",
            mismatch,
        ),
        "pytest": (
            f"{IMPORTS}\ndef test_pad():\n{indented(PAD + BOTH)}    assert np.allclose(plain, fused)\n",
            mismatch,
        ),
        "pytest, parametrized": (
            f"import pytest\n{IMPORTS}\n@pytest.mark.parametrize('level', ['ORT_ENABLE_BASIC', 'ORT_ENABLE_ALL'])\ndef test_pad(level):\n{indented(PAD)}    def run(name):\n        o = ort.SessionOptions()\n        o.graph_optimization_level = getattr(ort.GraphOptimizationLevel, name)\n        return ort.InferenceSession(model.SerializeToString(), o).run(None, feeds)[0]\n    np.testing.assert_allclose(run('ORT_DISABLE_ALL'), run(level))\n",
            mismatch,
        ),
        "a loop over seeds": (
            pad
            + loops
            + indented(BOTH)
            + "    np.testing.assert_allclose(plain, fused, err_msg=f'seed {seed}')\n",
            mismatch,
        ),
        "a loop that counts": (
            pad
            + "bad = 0\n"
            + loops
            + indented(BOTH)
            + "    bad += not np.allclose(plain, fused)\nprint(bad, 'of 3 differ')\n",
            "difference",
        ),
        "a temporary folder": (
            f"import os, tempfile\n{pad}with tempfile.TemporaryDirectory() as d:\n    path = os.path.join(d, 'm.onnx')\n    onnx.save(model, path)\n{indented(BOTH.replace('model.SerializeToString()', 'path'))}np.testing.assert_allclose(plain, fused)\n",
            mismatch,
        ),
        "BytesIO": (
            f"import io\n{pad}f = io.BytesIO()\nonnx.save(model, f)\n{BOTH.replace('model.SerializeToString()', 'f.getvalue()')}{checks}",
            mismatch,
        ),
        "pathlib": (
            f"from pathlib import Path\n{div}path = Path('out') / 'model.onnx'\npath.parent.mkdir(exist_ok=True)\npath.write_bytes(model.SerializeToString())\n{BOTH.replace('model.SerializeToString()', 'str(path)')}{checks}",
            mismatch,
        ),
        "weights in a file of their own": (
            div
            + "onnx.save(model, 'model.onnx', save_as_external_data=True, size_threshold=0)\n"
            + from_file
            + checks,
            mismatch,
        ),
        "text of the parser": (
            "import numpy as np, onnx.parser, onnxruntime as ort\nmodel = onnx.parser.parse_model('''\n<ir_version: 8, opset_import: [\"\": 17]>\nagraph (int32[3] x) => (int32[3] y) <int32[1] one = {1}> {\n  t = Div(one, x)\n  y = Mul(t, x)\n}\n''')\nfeeds = {'x': np.array([2, 3, 4], np.int32)}\n"
            + BOTH
            + checks,
            mismatch,
        ),
        "the reference evaluator": (
            pad
            + "from onnx.reference import ReferenceEvaluator\nwant = ReferenceEvaluator(model).run(None, feeds)[0]\ngot = ort.InferenceSession(model.SerializeToString()).run(None, feeds)[0]\nnp.testing.assert_allclose(want, got)\n",
            mismatch,
        ),
        "logging": (
            f"import logging\nlogging.basicConfig(level=logging.INFO)\nlog = logging.getLogger('repro')\n{pad}{BOTH}log.info('equal? %s', np.array_equal(plain, fused))\n",
            "difference",
        ),
        "an exception of its own": (
            div
            + BOTH
            + "def compare(a, b):\n    if np.abs(a - b).max() > 1e-3:\n        raise RuntimeError('outputs differ')\ncompare(plain, fused)\n",
            mismatch,
        ),
        "dataclass and partial": (
            f"from dataclasses import dataclass\nfrom functools import partial\n{IMPORTS}\n@dataclass\nclass Config:\n    rtol: float = 1e-5\n\nclose = partial(np.testing.assert_allclose, rtol=Config().rtol)\n{PAD}{BOTH}close(plain, fused)\n",
            mismatch,
        ),
        "threads": (
            f"from concurrent.futures import ThreadPoolExecutor\n{pad}def run(level):\n    o = ort.SessionOptions()\n    o.graph_optimization_level = level\n    return ort.InferenceSession(model.SerializeToString(), o).run(None, feeds)[0]\nL = ort.GraphOptimizationLevel\nwith ThreadPoolExecutor() as pool:\n    a, b = pool.map(run, [L.ORT_DISABLE_ALL, L.ORT_ENABLE_ALL])\nnp.testing.assert_allclose(a, b)\n",
            mismatch,
        ),
        "a package that is not needed": ("import netron_of_nobody\n" + pad + BOTH + checks, mismatch),
        "a crash": (IMPORTS + CRASH + ONE, "crash"),
        "a crash in a child": (child, "crash"),
        "a crash in a spawned process": (spawn, "crash"),
        "an exception while loading": (IMPORTS + REFUSED + ONE, mismatch),
        "an exception that is caught and printed": (
            IMPORTS
            + REFUSED
            + "try:\n"
            + indented(ONE)
            + "except Exception as e:\n    import traceback\n    traceback.print_exc()\n",
            "caught",
        ),
        "bound inputs": (
            IMPORTS
            + CRASH
            + "s = ort.InferenceSession(model.SerializeToString())\nb = s.io_binding()\nb.bind_cpu_input('x', feeds['x'])\nb.bind_output('y')\ns.run_with_iobinding(b)\nprint(b.copy_outputs_to_cpu())\n",
            "crash",
        ),
    }
    found = [Posted(style, text, kind, "ort") for style, (text, kind) in posted.items()]
    fenced = {
        "an issue with a table of versions and a trace": (
            markdown(pad + BOTH + checks) + VERSIONS + TRACE,
            mismatch,
        ),
        "blocks that share a file": (markdown(pad + saved, from_file + checks), mismatch),
        "blocks that share names, without imports": (
            markdown(PAD, BOTH + "print(np.allclose(plain, fused))\n", language=""),
            "difference",
        ),
        "details": (
            f"Bug!\n<details><summary>Script</summary>\n\n~~~py\n{div}{BOTH}{checks}~~~\n\n</details>\n",
            mismatch,
        ),
        "a quotation": (
            "On Monday X wrote:\n" + textwrap.indent(f"```python\n{pad}{BOTH}{checks}```", "> "),
            mismatch,
        ),
        "an indented block": (f"To reproduce:\n\n{indented(div + BOTH + checks)}\nThanks.\n", mismatch),
        "a console": (
            "It goes:\n```\n" + console(pad + BOTH + "print(np.allclose(plain, fused))\n") + "\nFalse\n```\n",
            "difference",
        ),
        "a shell's document": (
            f"```bash\npip install onnxruntime\npython - <<'EOF'\n{pad}{BOTH}{checks}EOF\n```\n",
            mismatch,
        ),
        "no fences": (f"Hello, this fails:\n\n{div}{BOTH}{checks}\nWhat do I do wrong?\n", mismatch),
        "html": (
            "<p>See</p><pre><code>" + (pad + BOTH + checks).replace("<", "&lt;") + "</code></pre>",
            mismatch,
        ),
    }
    found += [Posted(style, text, kind, "ort", ".md") for style, (text, kind) in fenced.items()]
    return [
        *found,
        Posted("a notebook", notebook("!pip install onnx\n" + pad, BOTH, checks), mismatch, "ort", ".ipynb"),
        Posted(
            "a notebook's console",
            cells(
                FLAT
                + "plain = ort.InferenceSession(model.SerializeToString(), disabled_optimizers=['Pad_Fusion']).run(None, feeds)[0]\nfused = ort.InferenceSession(model.SerializeToString()).run(None, feeds)[0]\nnp.testing.assert_allclose(plain, fused)\n"
            ),
            mismatch,
            "ort",
            ".md",
        ),
    ]


def of_torch() -> list[Posted]:
    """Scripts about torch."""
    module = "class Net(torch.nn.Module):\n    def forward(self, x, i):\n        return torch.take(x, i)\n\n"
    export = "torch.onnx.export(net, (x,), 'net.onnx', dynamo=True, input_names=['x'])\nimport numpy as np, onnxruntime as ort\ngot = ort.InferenceSession('net.onnx').run(None, {'x': x.numpy()})[0]\n"
    return [
        Posted(
            "eager against compiled",
            MOVED + "torch.testing.assert_close(moved(x, slots), torch.compile(moved)(x, slots))\n",
            "exception",
            "inductor",
        ),
        Posted(
            "prints torch.allclose",
            MOVED
            + "compiled = torch.compile(moved)\nprint(torch.allclose(moved(x, slots), compiled(x, slots)))\n",
            "difference",
            "inductor",
        ),
        Posted(
            "a decorator",
            TAKE.replace("def f", "@torch.compile(fullgraph=True)\ndef f") + "print(f(*args))\n",
            "exception",
            "inductor",
        ),
        Posted(
            "a module, dynamic",
            TAKE + module + "print(torch.compile(Net(), dynamic=True, fullgraph=True)(*args))\n",
            "exception",
            "inductor",
        ),
        Posted(
            "Module.compile",
            TAKE + module + "net = Net()\nnet.compile(fullgraph=True)\nprint(net(*args))\n",
            "exception",
            "inductor",
        ),
        Posted(
            "caught, by backends",
            TAKE
            + "for backend in ('eager', 'inductor'):\n    torch._dynamo.reset()\n    try:\n        print(backend, torch.compile(f, backend=backend, fullgraph=True)(*args))\n    except Exception as error:\n        print(backend, 'failed', type(error))\n",
            "caught",
            "inductor",
        ),
        Posted(
            "made for a GPU",
            TAKE.replace("torch.tensor(1)", "torch.tensor(1, device='cuda')").replace("2.5])", "2.5]).cuda()")
            + "torch.compile(f, fullgraph=True)(*args)\n",
            "exception",
            "inductor",
        ),
        Posted(
            "an issue of torch's form",
            markdown(
                TAKE + "torch.compile(f, fullgraph=True)(*args)\n",
                before="### 🐛 Describe the bug\n\ntake fails\n",
            )
            + "\n### Versions\n\n```\nPyTorch version: 2.13.0\nOS: Ubuntu 24.04\n```\n",
            "exception",
            "inductor",
            ".md",
        ),
        Posted(
            "exported, then run",
            ELU + export + "np.testing.assert_allclose(net(x).numpy(), got)\n",
            "exception",
            "torch-onnx",
        ),
        Posted(
            "an export that fails",
            TAKE + module + "torch.onnx.export(Net(), args, 'net.onnx', dynamo=True)\n",
            "exception",
            "torch-onnx",
        ),
    ]


def of_tvm() -> list[Posted]:
    """Scripts about TVM."""
    run = "vm = relax.VirtualMachine(ex, tvm.cpu())\nprint(vm['main'](*[tvm.runtime.tensor(np.zeros(1, 'float32'))] * 2))\n"
    builder = "import tvm\nfrom tvm import relax\n\nbb = relax.BlockBuilder()\nx, w = relax.Var('x', relax.TensorType([1], 'float32')), relax.Var('w', relax.TensorType([1], 'float32'))\nwith bb.function('main', [x, w]):\n    with bb.dataflow():\n        y = bb.emit_output(bb.emit(relax.op.nn.rms_norm(x, w, axes=[-1])))\n    bb.emit_func_output(y)\ntvm.compile(bb.get(), target='llvm')\n"
    given = "import tvm\nfrom tvm import relax\nfrom tvm.relax.frontend.onnx import from_onnx\n"
    return [
        Posted(
            "TVMScript, relax.build",
            RMS + "ex = relax.build(Module, target='llvm')\n" + run,
            "exception",
            "tvm",
        ),
        Posted(
            "TVMScript, tvm.compile",
            RMS + "ex = tvm.compile(Module, target='llvm')\n" + run,
            "exception",
            "tvm",
        ),
        Posted("a block builder", builder, "exception", "tvm"),
        Posted(
            "a pass by hand",
            RMS + "mod = relax.transform.LegalizeOps()(Module)\nprint(mod)\n",
            "exception",
            "tvm",
        ),
        Posted("loops", LESS + "tvm.tirx.build(Module, target='llvm')\n", "exception", "tvm"),
        Posted(
            "an issue with a script",
            markdown(RMS + "relax.build(Module, 'llvm')\n") + TRACE,
            "exception",
            "tvm",
            ".md",
        ),
        Posted(
            "an imported model",
            IMPORTS
            + CRASH
            + given
            + "mod = from_onnx(model)\nex = tvm.compile(mod, target='llvm')\nvm = relax.VirtualMachine(ex, tvm.cpu())\nprint(vm['main'](tvm.runtime.tensor(feeds['x'])))\n",
            "crash",
            "tvm",
        ),
        Posted(
            "caught and counted",
            LESS
            + "failed = 0\ntry:\n    tvm.compile(Module, target='llvm')\nexcept Exception as error:\n    failed += 1\nassert failed == 0, 'it fails'\n",
            "exception",
            "tvm",
        ),
    ]


def posted() -> list[Posted]:
    """All of them."""
    return [*of_onnxruntime(), *of_torch(), *of_tvm()]
