"""Eight kinds of bugs that a node remover gets wrong, in networks built here; printed, never asserted.

The predicates are answered in this process, so that what is measured are calls. `left` is what a person has
to look at: nodes, inputs, attributes, classes of dims.
"""

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import reducer.api
import reducer.session
from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.onnx.graph import walk_nodes
from corpus.onnx.types import infer
from corpus.values import Value
from reducer.api import Reduction, reduce_case
from reducer.course import Options
from reducer.engine.journal import Answer
from tests.reducer.driving import OPSETS, case_of, has, model_of

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3600)]

LOCAL = '<ir_version: 8, opset_import: ["" : 17, "local" : 1]>'
Shows = Callable[[onnx.ModelProto, Mapping[str, Value]], bool]


@dataclass(frozen=True)
class Planted:
    """A bug's own text from `x` to `y`, what shows it, and the fewest nodes that do."""

    least: int
    text: str
    shows: Shows
    kind: str = "float[4,8]"
    tail: str = ""
    header: str = OPSETS

    def case(self) -> Case:
        """The bug between two chains of forty nodes."""
        before = " ".join(f"a{at + 1} = {UNARY[at % 3]} (a{at})" for at in range(40))
        after = " ".join(f"c{at + 1} = {UNARY[at % 3]} (c{at})" for at in range(40))
        text = re.sub(r"\bx\b", "a40", self.text)
        graph = (
            f"g ({self.kind} a0) => ({self.kind} c40) {{ {before} {text} c0 = Neg (y) {after} }} {self.tail}"
        )
        return case_of(model_of(graph, self.header))


UNARY = ("Abs", "Neg", "Identity")


def exceeds(model: onnx.ModelProto, inputs: Mapping[str, Value]) -> bool:
    """An Exp gives more than 2.5 somewhere."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    wanted = [node.output[0] for node in copy.graph.node if node.op_type == "Exp"]
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    found = ReferenceEvaluator(copy).run(wanted, dict(inputs)) if wanted else []
    return any(bool((np.asarray(value) > 2.5).any()) for value in found)


def in_six_of_ten(operator: str) -> Shows:
    luck = random.Random(0)
    return lambda model, inputs: has(operator)(model) and luck.random() < 0.6


def in_body(operator: str, holder: str) -> Shows:
    def shows(model: onnx.ModelProto, inputs: Mapping[str, Value]) -> bool:
        holders = [node for node in model.graph.node if node.op_type == holder]
        within = [inner for node in holders for inner in walk_nodes(onnx.GraphProto(node=[node]))]
        return any(node.op_type == operator for node in within)

    return shows


def in_function(model: onnx.ModelProto, inputs: Mapping[str, Value]) -> bool:
    called = {(node.domain, node.op_type) for node in model.graph.node}
    functions = [each for each in model.functions if (each.domain, each.name) in called]
    return any(node.op_type == "Erf" for each in functions for node in each.node)


def one_of_two(model: onnx.ModelProto, inputs: Mapping[str, Value]) -> bool:
    """The other bug, a Softmax, hides this one: where it is, this one does not show unless it comes first."""
    order = [node.op_type for node in model.graph.node if node.op_type in ("Softmax", "Erf")]
    return order[:1] == ["Erf"]


def operand(operator: str, wants: Callable[[Any], bool]) -> Shows:
    def shows(model: onnx.ModelProto, inputs: Mapping[str, Value]) -> bool:
        graph = infer(model).graph
        types = {info.name: info.type.tensor_type for info in (*graph.value_info, *graph.input)}
        reads = [node.input[0] for node in model.graph.node if node.op_type == operator]
        return any(name in types and wants(types[name]) for name in reads)

    return shows


LOOP = (
    "n = Constant <value_int = 3> () t = Cast <to = 9> (n) y = Loop (n, t, x) <body = b (int64 i, bool ci,"
    " float[4,8] v) => (bool co, float[4,8] vo) { co = Identity (ci) e = Sin (v) f = Erf (e) g = Cos (f)"
    " vo = Tanh (g) }>"
)
FUNCTION = (
    '<opset_import: ["" : 17], domain: "local"> f (p, r) => (q) { a = Neg (p) b = Sin (a) c = Erf (b)'
    " d = Add (c, r) e = Cos (d) q = Tanh (e) }"
)
FLOAT16 = (
    "p = Cast <to = 10> (x) q = Transpose <perm = [1,0]> (p) r = MatMul (p, q) s = MatMul (r, p)"
    " y = Cast <to = 1> (s)"
)
RANK = (
    "s = Constant <value_ints = [2,2,2,2,2]> () p = Reshape (x, s) q = Transpose <perm = [4,3,2,1,0]> (p)"
    " t = Shape (x) y = Reshape (q, t)"
)

CASES = {
    "a value decides": Planted(1, "p = Exp (x) y = Sigmoid (p)", exceeds),
    "six runs of ten": Planted(1, "p = Erf (x) y = Sigmoid (p)", in_six_of_ten("Erf")),
    "two bugs": Planted(1, "p = Erf (x) q = Softmax (p) y = Sigmoid (q)", one_of_two),
    "in a Loop's body": Planted(2, LOOP, in_body("Erf", "Loop")),
    "in a function": Planted(2, "w = Sin (x) y = local.f (x, w)", in_function, tail=FUNCTION, header=LOCAL),
    "a dtype": Planted(
        1, FLOAT16, operand("MatMul", lambda kind: kind.elem_type == onnx.TensorProto.FLOAT16)
    ),
    "rank 5": Planted(1, RANK, operand("Transpose", lambda kind: len(kind.shape.dim) == 5)),
}


def left(model: onnx.ModelProto) -> int:
    nodes = [*walk_nodes(model.graph), *(node for each in model.functions for node in each.node)]
    dims = {dim.dim_value for info in model.graph.input for dim in info.type.tensor_type.shape.dim}
    dims |= {size for tensor in model.graph.initializer for size in tensor.dims}
    return len(nodes) + len(model.graph.input) + sum(len(node.attribute) for node in nodes) + len(dims)


HEAD = "| Case | Nodes | Least | Last / calls | Sweep | 3 x left | Bytes | Timeouts |\n" + 8 * "|---" + "|"


def row(name: str, done: Reduction, least: int) -> str:
    last = max((step.check for step in done.steps), default=1)
    before, after = (each.nodes + each.function_nodes for each in (done.before, done.after))
    bound = 3 * left(parse(done.case.program))
    spent = f"{last} / {done.checks} | {done.checks - last} | {bound}"
    return f"| {name} | {before} → {after} | {least} | {spent} | {done.after.bytes} | {done.timeouts} |"


def answering(planted: Planted, *settings: object) -> Callable[[Case], Answer]:
    """In the place of a command."""
    return lambda case: Answer(planted.shows(parse(case.program), case.inputs))


def test_kinds_of_bugs(tmp_path, say, monkeypatch):
    say(f"\n{HEAD}")
    for name, planted in CASES.items():
        monkeypatch.setattr(reducer.session, "Command", partial(answering, planted))
        done = reduce_case(planted.case(), tmp_path / name, Options(check="in this process"))
        say(row(name, done, planted.least))
