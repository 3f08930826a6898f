"""`crux scrub` takes the code out of an issue or a file, runs it contained, and makes cases."""

import importlib.util
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.outputs import must_be_empty
from oracles.sandbox.scripts import script_run
from oracles.verdict import Limits
from reducer.scripts import ScriptReducer
from tests.helpers.commands import completed, crux_apart
from triage.cases.issue_code import on_cpu, scripts_in, without_import
from triage.cases.sources import run_wrapped

PAD = """
x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 3, 3])
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
pads = helper.make_tensor("pads", TensorProto.INT64, [8], [0, 0, 1, 1, 0, 0, 1, 1])
nodes = [helper.make_node("Pad", ["x", "pads"], ["p"])]
nodes += [helper.make_node("MaxPool", ["p"], ["y"], kernel_shape=[2, 2])]
model = helper.make_model(helper.make_graph(nodes, "g", [x], [y], [pads]), ir_version=8,
                          opset_imports=[helper.make_opsetid("", 17)])
onnx.save(model, "model.onnx")
"""
RUN = """
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
feeds = {"x": -np.ones((1, 1, 3, 3), np.float32)}
plain, = ort.InferenceSession("model.onnx", options).run(None, feeds)
fused, = ort.InferenceSession("model.onnx").run(None, feeds)
"""


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("Fails:\n```python\nimport torch\nf(1)\n```\n", "import torch\nf(1)"),
        ("> ```\n> import torch\n> f(1)\n> ```\n", "import torch\nf(1)"),
        ("See\n\n    import torch\n    f(1)\n\nend", "import torch\nf(1)"),
        (
            ">>> import torch\n>>> for x in y:\n...     f(x)\n...\n1.0\n>>> f(2)\n",
            "import torch\nfor x in y:\n    f(x)\n\nf(2)",
        ),
        ("In [1]: import torch\nIn [2]: f(1)\nOut[2]: 3", "import torch\nf(1)"),
        ("```\n!pip install torch\nimport torch\n```", "import torch"),
        ("```bash\npython - <<'EOF'\nimport torch\nf(1)\nEOF\n```", "import torch\nf(1)"),
        ("```sh\npip install x\npython3 -c 'import torch; f(1)'\n```", "import torch; f(1)"),
        ("<pre><code>import torch\nf(a &lt; b)</code></pre>", "import torch\nf(a < b)"),
        ("It fails so:\nimport torch\nf(1)\nwhich is not what I expect, is it?", "import torch\nf(1)"),
        ("```\nTraceback (most recent call last):\n  f()\n```\n```\nimport torch\n```", "import torch"),
        ("```text\nimport torch\n```\n```\ntorch==2.13\n```\n", None),
    ],
)
def test_the_code_is_taken_out_of_a_text_in_whatever_form_it_stands(text, script):
    found = [each.text.strip("\n") for each in scripts_in(text)]
    assert found == ([script] if script else [])


def test_blocks_are_one_script_where_they_share_names_or_files_and_get_the_usual_imports():
    make, run, other = (
        "net = nn.Linear(2, 2)\n",
        "torch.compile(net)(1)\n",
        "import torch\nprint(torch.__version__)\n",
    )
    first, second = scripts_in(f"```\n{make}```\nthen\n```\n{run}```\nand\n```\n{other}```\n")
    assert first.text.startswith("from torch import nn\nimport torch\n")
    assert "nn.Linear" in first.text
    assert "torch.compile" in first.text
    assert second.text == other.strip("\n")
    (one,) = scripts_in(f"```\n{PAD}```\n```\n{RUN}```\n")
    assert {"import onnx", "import numpy as np", "import onnxruntime as ort"} <= set(one.text.splitlines())


def test_a_script_can_do_without_an_import_that_it_never_uses_and_without_a_gpu():
    assert without_import("import rich\nimport torch\n", "rich") == "pass\nimport torch"
    assert without_import("import rich\nrich.print(1)\n", "rich") == ""
    assert on_cpu("m.cuda(); torch.ones(2, device='cuda:0')") == "m.cpu(); torch.ones(2, device='cpu')"


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("import numpy as np\nprint(np.allclose(1, 2))", "difference", "np.allclose"),
        ("raise ValueError('no such axis')", "exception", "ValueError: no such axis"),
        ("import ctypes\nctypes.string_at(0)", "crash", "SIGSEGV"),
        (
            "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import os; os.abort()'])",
            "crash",
            "SIGABRT",
        ),
        ("def test_it():\n    assert 1 == 2, 'unequal'", "exception", "unequal"),
        ("import nothing_of_this_name", "lacks", "not whole"),
        ("print(1)", "", "ended well"),
    ],
)
def test_what_a_script_complains_of_is_read_from_how_it_ends(text, kind, said):
    with script_run(text, Limits()) as run:
        found = run.complaint()
    assert (found.kind, said in found.text) == (kind, True), found


def test_an_issue_becomes_a_case_of_its_model_and_inputs_which_is_reduced(tmp_path):
    (tmp_path / "issue.md").write_text(
        f"Wrong.\n```python\n{PAD}```\nand\n```\n{RUN}print((plain == fused).all())\n```\n"
    )
    done = crux_apart(tmp_path, "scrub", "issue.md", "--trust", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0 or found["cases"], done.stderr
    case = Case.load(tmp_path / "crux-scrubbed" / "case-1")
    assert (str(case.target), case.inputs["x"].min()) == ("ort", np.float32(-1))
    assert found["cases"][0]["outcome"] == "mismatch"
    assert found["reduced"]["nodes_after"] == 2
    assert "next: crux report crux-scrubbed/reduced" in done.stderr


def test_a_script_of_which_no_case_fails_is_reduced_as_text():
    text = "import math\nn = 3\nfor i in range(n):\n    print(i)\nif n > 2:\n    math.sqrt(-abs(n) - 40)\n"

    def shows(candidate: str) -> bool:
        try:
            exec(candidate, {"print": str})
        except ValueError:
            return True
        except Exception:
            return False
        return False

    reducer = ScriptReducer(text, shows)
    assert reducer.run() == "import math\nn = 1\nmath.sqrt(n - 2)"
    assert reducer.minimal


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("missing.py", "--trust"), "no such file"),
        (("script.py",), "give --trust"),
        (("empty.md", "--trust"), "holds no Python code"),
        (("broken.py", "--trust"), "not Python"),
        (("script.py", "--trust", "-o", "full"), "is not empty"),
    ],
)
def test_what_cannot_be_taken_is_one_line_and_exit_2(words, said, tmp_path):
    for name, text in {"script.py": "print(1)", "empty.md": "no code", "broken.py": "1 +"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").touch()
    done = crux_apart(tmp_path, "scrub", *words)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    with pytest.raises(UserError):
        must_be_empty(tmp_path)


def test_the_script_sees_no_network_and_of_the_folder_only_what_it_names(tmp_path):
    for name in ("named.txt", "other.txt"):
        (tmp_path / name).write_text(name)
    (tmp_path / "script.py").write_text(
        "import os, socket\nassert open('named.txt').read() == 'named.txt'\n"
        f"assert not os.path.exists({str(tmp_path / 'other')!r} + '.txt')\n"
        "try:\n    socket.create_connection(('192.0.2.1', 80), 2)\n"
        "except OSError:\n    raise SystemError('contained')\n"
    )
    done = crux_apart(tmp_path, "scrub", "script.py", "--trust", "--cases-only", "--json")
    assert json.loads(done.stdout)["complaint"]["text"] == "SystemError: contained", done.stderr


def test_a_script_cannot_have_files_read_through_its_notes():
    link = "import os\nnotes = os.environ['CRUX_NOTES']\nfolder = os.path.join(notes, os.listdir(notes)[0])\n"
    link += "os.remove(folder + '/crash.txt')\nos.symlink('/etc/hostname', folder + '/crash.txt')\n"
    with pytest.raises(UserError, match="behind a link"), script_run(link, Limits()):
        pass


# `crux wrap` runs a program of the user's, and takes the graphs that torch keeps of it as cases

WRONG = """
import torch


def moved(x, slots):
    y = torch.tanh(x)
    return torch.index_put(y, (slots,), y)


torch.manual_seed(0)
torch.compile(moved)(torch.randn(64), torch.randperm(64))
"""


def test_the_program_runs_with_its_own_output_and_torch_keeps_graphs_in_the_folder(tmp_path):
    told = tmp_path / "told"
    code = f"import os; open({str(told)!r}, 'w').write(os.environ['TORCH_COMPILE_DEBUG_DIR']); os._exit(3)"
    ended = run_wrapped([sys.executable, "-c", code], tmp_path / "out", "errors")
    assert told.read_text() == str(tmp_path / "out" / "dumps")
    assert ended.sentence(0) == "the program ended with 3; no graph failed to compile"


def test_a_program_that_cannot_be_started_is_one_line(tmp_path):
    with pytest.raises(UserError, match="cannot be started"):
        run_wrapped(["/no/such/program"], tmp_path / "out", "errors")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_a_graph_with_wrong_values_in_a_program_becomes_a_failing_case(tmp_path):
    (tmp_path / "train.py").write_text(WRONG)
    command = [sys.executable, "-m", "triage.cli", "wrap", "--catch", "all", "--json", "-o", "caught"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = completed([*command, "--", sys.executable, "train.py"], cwd=tmp_path, env=environment)
    (found,) = json.loads(done.stdout[done.stdout.index("[") :])
    assert (done.returncode, found["outcome"], found["bug"]) == (1, "mismatch", True)
    assert "next: crux reduce caught/case-1 -o crux-small" in done.stderr
    assert (tmp_path / "caught" / "case-1" / "program.torch.json").is_file()
