"""TVMScript of every kind: what is read of it runs as the script's own module does."""

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus.case import Case
from corpus.formats import find_format
from corpus.graphs.program import Graph, GraphProgram, graph_of_json
from corpus.graphs.static import with_calls_written_out, with_static_dims
from corpus.load import Imported
from corpus.target import Target
from oracles.judge import Judge
from oracles.sandbox.sandbox import Sandbox
from oracles.sandbox.scripts import imported
from oracles.verdict import Config, Outcome
from oracles.worker.relax_reference.program import call_operator
from oracles.worker.relax_reference.rule import LeftOpen

TVM = Target("tvm")
HEAD = """
import numpy as np
import tvm
from tvm.script import ir as I, relax as R, tirx as T
"""

RECURSIVE = """
@I.ir_module
class Module:
    @R.function(pure=False)
    def rec(n: R.Tensor((), "int64"), x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        c: R.Tensor((), "bool") = R.greater(n, R.const(0, "int64"))
        if c:
            m: R.Tensor((), "int64") = R.subtract(n, R.const(1, "int64"))
            y: R.Tensor((2, 3), "float32") = R.add(x, x)
            r: R.Tensor((2, 3), "float32") = Module.rec(m, y)
        else:
            r: R.Tensor((2, 3), "float32") = x
        return r
    @R.function(pure=False)
    def main(x: R.Tensor((2, 3), "float32")) -> R.Tensor((2, 3), "float32"):
        y: R.Tensor((2, 3), "float32") = Module.rec(R.const(3, "int64"), x)
        return y
inputs = [np.ones((2, 3), "float32")]
"""
PASSED = """
@I.ir_module
class Module:
    @R.function
    def forward(
        t: R.Tuple(R.Tensor(("n",), "float32"), R.Tensor(("n",), "float32")),
        s: R.Shape(["n", "k"]), c: R.Prim("int64"), u: R.Tensor(dtype="float32", ndim=1), o: R.Any,
    ) -> R.Tensor(("n",), "float32"):
        n = T.int64()
        with R.dataflow():
            a = t[0]
            b = t[1]
            d = R.add(a, b)
            R.output(d)
        e = R.match_cast(u, R.Tensor((n,), "float32"))
        f = R.add(d, e)
        return f
"""
LONG = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2,), "int64"), d: R.Tensor((2,), "float64")):
        y = R.add(x, R.const([2**40, -3], "int64"))
        z = R.add(d, R.const([1e-300, 2.0], "float64"))
        return (y, z)
inputs = [np.zeros(2, "int64"), np.zeros(2, "float64")]
"""
COMPILES = """
@I.ir_module
class Before:
    @R.function
    def decode(x: R.Tensor(("n", 3), "float32")):
        return R.exp(x)
    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        return R.tanh(x)
ex = tvm.compile(Before, tvm.target.Target("llvm"))
vm = tvm.relax.VirtualMachine(ex, tvm.cpu())
vm["decode"](tvm.runtime.tensor(np.full((4, 3), 2.0, "float32")))
raise RuntimeError("not reached")
"""
REGISTERS = """
@tvm.register_global_func("test.of.the.script")
def one(a, b):
    b.copyfrom(a.numpy() + 1)
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((4,), "float32")):
        return R.call_dps_packed("test.of.the.script", (x,), out_ty=R.Tensor((4,), "float32"))
"""


def opened(tvm_opener: Sandbox, script: str) -> tuple[GraphProgram, Imported]:
    content = base64.b64encode((HEAD + script).encode()).decode()
    found = imported(tvm_opener, "relax", Path("script.py"), content)
    return find_format("relax").parse(found.program), found


def case_of(tvm_opener: Sandbox, script: str) -> Case:
    program, found = opened(tvm_opener, script)
    inputs = found.inputs or find_format("relax").make_inputs(program, 1)
    return Case("relax", found.program, inputs, TVM)


def outputs_of(judge: Judge, case: Case) -> list[np.ndarray]:
    (run,) = judge.runs(case, judge.configs[:1])
    assert run.is_ok, run.message
    return [np.asarray(value) for value in run.outputs.values()]


def graph(inputs: list[Any], outputs: list[str], *bindings: Any) -> Graph:
    return graph_of_json({"inputs": inputs, "outputs": outputs, "bindings": list(bindings)})


def written(
    main: Graph, constants: dict[str, Any] | None = None, *, inputs: dict[str, Any], **functions: Graph
) -> Case:
    """The case of a program that no script says."""
    program = GraphProgram("relax", main, constants or {}, functions, {}, {"main": "main"})
    return Case("relax", program.to_bytes(), inputs, TVM)


def test_a_function_that_calls_itself_is_a_program(top_relax_judge, tvm_opener):
    (found,) = outputs_of(top_relax_judge, case_of(tvm_opener, RECURSIVE))
    assert (found == 8).all()


def test_shapes_numbers_tuples_and_types_left_open_are_passed_as_the_function_takes_them(
    top_relax_judge, tvm_opener
):
    program, found = opened(tvm_opener, PASSED)
    assert [item.name for item in program.main.inputs] == ["t_0", "t_1", "s", "c", "u", "o"]
    assert program.facts["main"] == "forward"
    assert found.notes, "the tuple is taken apart, which is said"
    verdict = top_relax_judge.verdict(case_of(tvm_opener, PASSED))
    assert verdict.outcome is Outcome.PASS, verdict.title


def test_constants_of_64_bits_keep_them(top_relax_judge, tvm_opener):
    long, double = outputs_of(top_relax_judge, case_of(tvm_opener, LONG))
    assert (long.dtype, long.tolist()) == (np.int64, [2**40, -3])
    assert (double.dtype, double.tolist()) == (np.float64, [1e-300, 2.0])


def test_a_script_that_compiles_and_calls_its_module_is_not_run_beyond_that(tvm_opener):
    program, found = opened(tvm_opener, COMPILES)
    assert program.facts["main"] == "decode"
    assert list(program.functions) == ["main"]
    assert np.shape(found.inputs["x"]) == (4, 3)


def test_what_only_the_script_registers_is_no_bug_of_the_compiler(top_relax_judge, tvm_opener):
    verdict = top_relax_judge.verdict(case_of(tvm_opener, REGISTERS))
    assert verdict.outcome is Outcome.INVALID
    assert "'test.of.the.script'" in verdict.title


def test_a_constant_that_only_a_function_returns_is_written_with_it(top_relax_judge):
    main = graph([], ["y"], ["y", "call", [{"function": "f"}], {}])
    case = written(main, {"w": np.ones(1, "float32")}, inputs={}, f=graph([], ["w"]))
    (run,) = top_relax_judge.runs(case, (Config("source", (("show", "source"),)),))
    assert run.is_ok, run.message
    assert "def f(" in str(run.outputs["module"])


X, V, P = {"ref": "x"}, {"ref": "v"}, {"ref": "p"}
HALVES = [["x", "float16", ["n"]], ["v", "float16", ["n"]]]
CANCELLED = [["e", "relax.exp", [X], {}], ["y", "relax.subtract", [{"ref": "e"}, V], {}]]
"""What is left of half floats is anybody's: noise of the last result does not tell how much."""
WHOLE = graph(
    [["p", "float16", ["n"]], ["q", "float16", ["n"]]],
    ["s"],
    ["z", "relax.exp", [P], {"block": 1}],
    ["m", "match_cast", [{"ref": "z"}, {"tensor": ["float16", ["n"], 1]}], {"block": 1}],
    ["s", "relax.subtract", [{"ref": "m"}, {"ref": "q"}], {}],
)


@pytest.mark.parametrize(
    "bindings",
    [
        CANCELLED,
        [*CANCELLED, ["any", "alias", [{"ref": "y"}], {"type": {"any": True}}]],
        [["y", "call", [{"function": "whole"}, X, V], {"block": 1}]],
    ],
    ids=["symbolic dims", "what has the type Any", "functions that are called"],
)
def test_noise_reaches(relax_judge, bindings):
    values = np.float16([1, 2, 1.5])
    called = {"whole": WHOLE} if bindings[0][1] == "call" else {}
    main = replace(graph(HALVES, ["y"], *bindings), facts={"pure": True})
    case = written(main, inputs={"x": values, "v": np.exp(values)}, **called)
    context = relax_judge.open(case)
    (context.plain,) = relax_judge.runs(case, relax_judge.configs[:1])
    plain = context.plain.outputs["y"]
    samples = [*context.noise.samples()]
    assert max(np.abs(each["y"] - plain).max() for each in samples) > 2 * np.abs(plain).max()


def test_a_call_written_out_computes_what_the_function_does(relax_judge):
    inner = {"inputs": [], "outputs": ["b"], "bindings": [["b", "relax.negative", [P], {}]]}
    other = {"inputs": [], "outputs": ["d"], "bindings": [["d", "relax.exp", [P], {}]]}
    branch = ["i", "if", [{"ref": "c"}, {"graph": inner}, {"graph": other}], {}]
    attributes = {"attributes": ["InitAttrs", {"dtype": "float32"}]}
    full = ["f", "relax.full", [{"shape": ["n + 1"]}, {"ref": "w"}], attributes]
    function = graph([["p", "float32", ["n"]], ["c", "bool", []]], ["i", "f"], branch, full)
    call = ["one", "call", [{"function": "g"}, X, {"ref": "t"}], {}]
    members = [[f"y{at}", "getitem", [{"ref": "one"}, at], {}] for at in range(2)]
    main = graph([["x", "float32", ["m"]], ["t", "bool", []]], ["y0", "y1"], call, *members)
    values = {"x": np.float32([1, 2]), "t": np.array(False)}
    case = written(main, {"w": np.float32(3)}, inputs=values, g=function)
    plain = with_static_dims(with_calls_written_out(case.parsed, values), values)
    assert all(each.op != "call" for each in plain.main.bindings)
    assert '"n' not in json.dumps([each.args for each in plain.main.bindings])
    one, two = (
        outputs_of(relax_judge, replace(case, program=each)) for each in (case.program, plain.to_bytes())
    )
    for left, right in zip(one, two, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(("index", "reason"), [(2, ""), (5, "an index out of bounds")])
def test_an_index_outside_in_a_called_function_leaves_open_what_hangs_on_it(relax_judge, index, reason):
    """TVM's gather_nd looks at no bounds: it may give anything there, and die."""
    attributes = {"attributes": ["GatherNDAttrs", {"batch_dims": 0}]}
    gather = ["g", "relax.gather_nd", [{"ref": "t"}, {"ref": "i"}], attributes]
    main = graph(
        [["at", "int64", [1]], ["x", "float32", [2]]],
        ["y", "z"],
        ["y", "call", [{"function": "picked"}, {"ref": "at"}], {}],
        ["z", "relax.exp", [X], {}],
    )
    given = {"at": np.int64([index]), "x": np.float32([1, 2])}
    picked = graph([["i", "int64", [1]]], ["g"], gather)
    case = written(main, {"t": np.arange(3, dtype="float32")}, inputs=given, picked=picked)
    context = relax_judge.open(case)
    (context.plain,) = relax_judge.runs(case, relax_judge.configs[:1])
    assert (context.undefined, context.left_open("y"), context.left_open("z")) == (reason, reason, "")


def test_a_row_outside_that_is_drawn_from_is_left_open():
    chances, drawn, rows = np.full((2, 3), 1 / 3), np.array([[0.5]]), np.array([[2]])
    with pytest.raises(LeftOpen, match="out of bounds"):
        call_operator("relax.multinomial_from_uniform", (chances, drawn, rows), {"dtype": "int64"})


def test_an_axis_that_is_not_there_is_no_bug_of_what_looks_at_it(relax_judge):
    """TVM's checker lets it pass, legalising refuses it, and the optimiser has removed it before."""
    attributes = {"attributes": ["ScanopAttrs", {"axis": 1, "dtype": "float32", "exclusive": False}]}
    bindings = (["t", "relax.cumprod", [X], attributes], ["y", "relax.exp", [X], {}])
    main = graph([["x", "float32", []]], ["y"], *bindings)
    verdict = relax_judge.verdict(written(main, inputs={"x": np.array(1, "float32")}))
    assert verdict.runs[0].error == "IndexError"
    assert verdict.outcome is Outcome.INVALID


def test_a_reshape_to_another_number_of_elements_is_refused_by_right(relax_judge):
    """The optimiser folds it and refuses; without it nothing is read, and nothing looks at the sizes."""
    shape = ["t", "relax.tensor_to_shape", [{"ref": "sizes"}], {}]
    main = graph([], ["y"], shape, ["y", "relax.reshape", [X, {"ref": "t"}], {"block": 1}])
    constants = {"sizes": np.zeros(2, "int32"), "x": np.zeros(3, "float32")}
    verdict = relax_judge.verdict(written(main, constants, inputs={}))
    assert verdict.runs[0].is_ok
    assert verdict.outcome is Outcome.INVALID
    assert "a shape of another number of elements" in verdict.title
