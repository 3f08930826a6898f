"""What each move makes of a model: tables of before, what must stay, after."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx
import pytest
from onnx import printer

from corpus.onnx.check import checker_complaint
from corpus.onnx.graph import captured_names
from corpus.values import Value
from oracles.judge import Judge
from reducer.move import Hints
from reducer.moves import all_moves
from reducer.subject.onnx.subject import OnnxSubject
from reducer.subject.order import size
from tests.reducer.driving import (
    OPSETS,
    Driven,
    IsInteresting,
    case_of,
    drive,
    find_move,
    graph_text,
    has,
    model_of,
    operators,
    subject_of,
)

OLD = '<ir_version: 3, opset_import: ["" : 17]>'
STRIP = "strip annotations, documentation and Constant nodes"
NAMED = "keep the nodes that the evidence names"
CUT, DIMS, PARTED = "drop single nodes by cut", "shrink dims", "keep the nodes where values part"


@dataclass(frozen=True)
class Row:
    """A model, the operators that must stay or a predicate, and what the move leaves."""

    before: str
    keeps: str | IsInteresting
    after: str = ""
    header: str = OPSETS
    hints: Hints = field(default_factory=Hints)


def _drive(judge: Judge, move: str, row: Row) -> Driven:
    """As a target would have it: what does not run un-optimised is not interesting."""
    model = model_of(row.before, row.header)
    keeps = has(*row.keeps.split()) if isinstance(row.keeps, str) else row.keeps

    def is_interesting(candidate: onnx.ModelProto, inputs: Mapping[str, Value]) -> bool:
        runs = judge.runs(case_of(candidate, inputs), judge.configs[:1])
        return runs[0].is_ok and keeps(candidate)

    subject = subject_of(judge, case_of(model))
    assert is_interesting(model, subject.inputs)
    driven = drive(find_move(move), subject, is_interesting, row.hints)
    assert {checker_complaint(each.model) for each in driven.candidates} <= {None}
    return driven


def flows(above: str, below: str) -> IsInteresting:
    """A predicate: what an operator makes comes to another, through others or not."""

    def is_interesting(model: onnx.ModelProto) -> bool:
        reached: set[str] = set()
        for node in model.graph.node:
            if node.op_type == below and reached & set(node.input):
                return True
            if node.op_type == above or reached & set(node.input):
                reached.update(node.output)
        return False

    return is_interesting


def dim_of(position: int, axis: int, at_least: int) -> IsInteresting:
    """A predicate: a dim of a graph input is that large or larger."""
    return lambda model: model.graph.input[position].type.tensor_type.shape.dim[axis].dim_value >= at_least


def reads_an_output(model: onnx.ModelProto) -> bool:
    read = {name for node in model.graph.node for name in node.input}
    return any(info.name in read for info in model.graph.output)


CHAIN = "g (float[2] x) => (float[2] y) { a = Relu (x) b = Erf (a) c = Exp (b) y = Neg (c) }"
LONG = (
    "g (float[2] x) => (float[2] y) { a = Relu (x) b = Erf (a) c = Relu (b) d = Exp (c)"
    " e = Relu (d) y = Relu (e) }"
)
LONGER = (
    "g (float[2] x) => (float[2] y) { r0 = Relu (x)"
    + "".join(f" r{at + 1} = Relu (r{at})" for at in range(20))
    + " a = Cos (r20) b = Erf (a) c = Cos (b) d = Exp (c) s0 = Cos (d)"
    + "".join(f" s{at + 1} = Cos (s{at})" for at in range(20))
    + " y = Neg (s20) }"
)


def test_wrong_evidence_costs_two_checks(judge):
    text = LONG.replace("y = Relu (e)", "f = Cos (e) y = Tanh (f)")
    row = Row(text, "Tanh", hints=Hints(operators=("Erf",)))
    assert _drive(judge, NAMED, row).asked == 2


def test_what_flows_in_at_a_cut_is_what_flowed_there(judge):
    model = model_of("g (float[3] x) => (float[3] y) { a = Relu (x) b = Exp (a) y = Neg (b) }")
    inputs = {"x": np.array([-1, 0, 1], np.float32)}
    driven = drive(
        find_move(CUT), subject_of(judge, case_of(model, inputs)), lambda model, inputs: has("Neg")(model)
    )
    np.testing.assert_allclose(driven.subject.inputs["b"], np.exp([0, 0, 1]), rtol=1e-6)
    assert list(driven.subject.inputs) == ["b"]


def test_a_tensor_of_which_inference_knows_no_rank_can_be_cut(judge):
    model = model_of(
        "g (float[2,3] x, int64[k] s) => (float[m,n] y) { a = Reshape (x, s) b = Relu (a) y = Neg (b) }"
    )
    inputs = {"x": np.ones((2, 3), np.float32), "s": np.array([3, 2])}
    driven = drive(
        find_move(CUT), subject_of(judge, case_of(model, inputs)), lambda model, inputs: has("Neg")(model)
    )
    assert operators(driven.subject.model) == ["Neg"]
    assert checker_complaint(driven.subject.model) is None


IF = (
    "g (float[2] x, bool c) => (float[2] y) { a = Relu (x) y = If (c) <"
    "then_branch = t () => (float[2] p) { q = Erf (a) p = Neg (q) },"
    "else_branch = e () => (float[2] r) { r = Exp (a) }> }"
)
LOOP = (
    "g (float[2] x) => (float[2] y, float[3,2] s) <int64 n = {3}, bool t = {1}> { a = Relu (x)"
    " y, s = Loop (n, t, x) <body = b (int64 i, bool ci, float[2] v) => (bool co, float[2] vo, float[2] so) {"
    " co = Identity (ci) e = Erf (v) vo = Add (e, a) so = Neg (vo) }> }"
)
SCAN = (
    "g (float[2] h, float[2,3] x) => (float[2] y, float[2,3] t) { y, s = Scan <num_scan_inputs = 1,"
    " scan_input_axes=[1], scan_output_axes=[1], body = b (float[2] hi, float[2] xi)"
    " => (float[2] ho, float[2] so)"
    " { ho = Add (hi, xi) so = Erf (ho) }> (h, x) t = Abs (s) }"
)


def flows_through(branch: str) -> IsInteresting:
    """A predicate: a branch of an If reads something from outside."""
    return lambda model: any(
        captured_names(item.g) for node in model.graph.node for item in node.attribute if item.name == branch
    )


FUNCTIONS = (
    '<ir_version: 8, opset_import: ["" : 17, "local" : 1]>'
    "g (float[2] x) => (float[2] y) { a = Relu (x) y = local.outer (a) }"
    '<opset_import: ["" : 17, "local": 1], domain: "local"> outer (p) => (q) { r ='
    " local.inner (p) q = Exp (r) }"
    '<opset_import: ["" : 17], domain: "local"> inner (p) => (q) { r = Erf (p) q = Neg (r) }'
)


def test_nested_functions_are_written_out_where_they_are_called(judge):
    inlined = _drive(judge, "inline functions", Row(FUNCTIONS, "", header=""))
    assert [node.op_type for node in inlined.subject.nodes] == ["Relu", "Erf", "Neg", "Exp"]
    assert not inlined.subject.model.functions


@pytest.mark.parametrize(("kept", "functions"), [("Relu", []), ("outer", ["outer", "inner"])])
def test_functions_stay_while_something_calls_them(judge, kept, functions):
    driven = _drive(judge, CUT, Row(FUNCTIONS, kept, header=""))
    assert [function.name for function in driven.subject.model.functions] == functions


LOCAL = '<ir_version: 8, opset_import: ["" : 17, "local" : 1]>'
BODY = (
    "g (float[2] x, float[2] z) => (float[2] y) { y = local.f (x, z) }"
    '<opset_import: ["" : 17], domain: "local"> f (p, r) => (q) { '
)


@pytest.mark.parametrize(
    ("before", "kept", "after"),
    {
        "nodes, and an operand that is not read any more": (
            BODY + "a = Neg (p) b = Erf (a) c = Exp (b) d = Cos (c) e = Add (d, r) q = Sin (e) }",
            "Erf",
            "f (p) => (q) { q = Erf (p) }",
        ),
        "what does not type is not asked for": (
            BODY.replace("y = local.f (x, z)", "t = local.f (x, z) y = Add (t, x)")
            + "a = Cast <to = 11> (p) b = Neg (a) q = Cast <to = 1> (b) }",
            "Cast",
            "f (p) => (q) { q = Cast <to: int = 1> (p) }",
        ),
    }.values(),
)
def test_function_bodies(judge, before, kept, after):
    """The call stays, and with it the operator in the function."""

    def is_interesting(model: onnx.ModelProto) -> bool:
        return has("f")(model) and kept in [node.op_type for each in model.functions for node in each.node]

    reduced = _drive(judge, "shrink functions", Row(before, is_interesting, header=LOCAL)).subject.model
    (function,) = reduced.functions
    assert " ".join(printer.to_text(function).split()).endswith(after)
    assert [len(node.input) for node in reduced.graph.node if node.op_type == "f"] == [1]


def test_weights_of_a_recurrent_network_are_not_asked_about_one_axis_at_a_time(judge):
    text = (
        "g (float[7,3,5] x, float[2,32,5] w, float[2,32,8] r) => (float[7,2,3,8] y) {"
        ' y = LSTM <hidden_size=8, direction="bidirectional"> (x, w, r) }'
    )
    driven = _drive(judge, DIMS, Row(text, "LSTM"))
    assert np.asarray(driven.subject.inputs["w"]).shape == (1, 4, 1)
    assert len(driven.candidates) <= 6


def test_a_symbol_that_stands_for_two_axes_keeps_one_size(judge):
    model = model_of("g (float[N,N] x) => (float[N,N] y) { y = Relu (x) }")
    subject = subject_of(judge, case_of(model, {"x": np.ones((4, 4), np.float32)}))
    of_four_rows = lambda model, inputs: len(inputs["x"]) == 4  # noqa: E731
    driven = drive(find_move(DIMS), subject, of_four_rows)
    assert np.asarray(driven.subject.inputs["x"]).shape == (4, 4)
    whole = drive(find_move(DIMS), subject, lambda model, inputs: True)
    assert np.asarray(whole.subject.inputs["x"]).shape == (1, 1)


def test_moves_have_names_of_their_own_and_an_order():
    moves = all_moves(OnnxSubject)
    assert len({move.name for move in moves}) == len(moves)
    assert [move.order for move in moves] == sorted(move.order for move in moves)


TABLES = {
    STRIP: {
        "constants become initializers": Row(
            "g (float[2] x) => (float[2] y) { c = Constant <value_floats = [1.0, 2.0]> ()"
            " d = Constant <value = float[1] {3.0}> () e = Add (x, c) y = Mul (e, d) }",
            "Mul",
            "g (float[2] x) => (float[2] y) <float[2] c = {1,2}, float[1] d = {3}> {"
            " e = Add (x, c) y = Mul (e, d) }",
        ),
        "before IR 4 the initializer is an input as well": Row(
            "g (float[2] x) => (float[2] y) { c = Constant <value_floats = [1.0, 2.0]> () y = Add (x, c) }",
            "Add",
            "g (float[2] x, float[2] c) => (float[2] y) <float[2] c = {1,2}> { y = Add (x, c) }",
            OLD,
        ),
        "constants in bodies": Row(
            "g (bool b, float[1] x) => (float[1] y) { y = If (b) <"
            "then_branch = t () => (float[1] p) { k = Constant <value_floats = [1.0]> () p = Add (x, k) },"
            "else_branch = e () => (float[1] q) { q = Neg (x) }> }",
            "If",
            "g (bool b, float[1] x) => (float[1] y) { y = If (b) <"
            "then_branch = t () => (float[1] p) <float[1] k = {1}> { p = Add (x, k) },"
            "else_branch = e () => (float[1] q) { q = Neg (x) }> }",
        ),
    },
    NAMED: {
        "an operator that the message names": Row(
            CHAIN,
            "Erf",
            "g (float[2] a) => (float[2] b) { b = Erf (a) }",
            hints=Hints(operators=("Erf", "Tensor")),
        ),
        "a node, by its output": Row(
            CHAIN, "Exp", "g (float[2] b) => (float[2] c) { c = Exp (b) }", hints=Hints(nodes=("c",))
        ),
    },
    PARTED: {
        "what was rewritten": Row(
            CHAIN,
            "Erf",
            "g (float[2] a) => (float[2] b) { b = Erf (a) }",
            hints=Hints(divergence=("b",)),
        ),
    },
    "drop operator types by cut": {
        "whole operator types by cut": Row(
            LONGER,
            "Erf Exp",
            "g (float[2] a, float[2] c) => (float[2] b, float[2] d) { b = Erf (a) d = Exp (c) }",
        ),
    },
    "drop operator types by link": {
        "whole operator types by link": Row(
            LONGER, flows("Erf", "Exp"), "g (float[2] a) => (float[2] d) { b = Erf (a) d = Exp (b) }"
        ),
    },
    "bisect nodes by cut": {
        "bisection by cut": Row(LONGER, "Exp", "g (float[2] c) => (float[2] d) { d = Exp (c) }"),
    },
    "bisect nodes by link": {
        "bisection by link": Row(
            LONGER,
            flows("Erf", "Exp"),  # few neighbours of what is needed are left to the moves that ask for each
            "g (float[2] r19) => (float[2] d)"
            " { r20 = Relu (r19) a = Cos (r20) b = Erf (a) c = Cos (b) d = Exp (c) }",
        ),
    },
    CUT: {
        "single nodes by cut": Row(CHAIN, "Erf", "g (float[2] a) => (float[2] b) { b = Erf (a) }"),
        "a value computed from constants is cut to an initializer": Row(
            "g (float[2] x) => (float[2] y) <float[2] w = {1,2}> { a = Neg (w) b = Neg (a) y = Add (x, b) }",
            "Add",
            "g (float[2] x) => (float[2] y) <float[2] b = {1,2}> { y = Add (x, b) }",
        ),
        "symbolic dims are kept where they were": Row(
            "g (float[N, 3] x) => (float[N, 3] y) { a = Relu (x) b = Erf (a) y = Exp (b) }",
            "Erf",
            "g (float[N, 3] a) => (float[N, 3] b) { b = Erf (a) }",
        ),
        "an output that is read inside stays both": Row(
            "g (float[2] x) => (float[2] a, float[2] y) { a = Erf (x) b = Neg (a) y = Exp (b) }",
            reads_an_output,
            "g (float[2] x) => (float[2] a, float[2] b) { a = Erf (x) b = Neg (a) }",
        ),
        "of several results those once read remain outputs": Row(
            "g (float[4] x) => (float[2] y) { a, b = Split (x) c = Neg (b) y = Exp (c) }",
            "Split",
            "g (float[4] x) => (float[2] b) { a, b = Split (x) }",
        ),
        "a value that a body captures": Row(
            "g (float[2] x, bool c) => (float[2] y) { a = Relu (x) y = If (c) <"
            "then_branch = t () => (float[2] p) { p = Erf (a) },"
            "else_branch = e () => (float[2] r) { r = Exp (a) }> }",
            "If",
            "g (bool c, float[2] a) => (float[2] y) { y = If (c) <"
            "then_branch = t () => (float[2] p) { p = Erf (a) },"
            "else_branch = e () => (float[2] r) { r = Exp (a) }> }",
        ),
    },
    "drop single nodes by link": {
        "single nodes by link": Row(
            CHAIN, flows("Relu", "Neg"), "g (float[2] x) => (float[2] y) { a = Relu (x) y = Neg (a) }"
        ),
    },
    "unfold control flow": {
        "If becomes its then-branch": Row(
            IF, "Erf", 'g (float[2] x) => (float[2] y) { a = Relu (x) "y/q" = Erf (a) y = Neg ("y/q") }'
        ),
        "Loop becomes its first trip, not stacked where nobody reads the stack": Row(
            LOOP,
            "Erf",
            "g (float[2] x) => (float[2] y, float[2] s) { a = Relu (x)"
            ' "y/e" = Erf (x) y = Add ("y/e", a) s = Neg (y) }',
        ),
        "Scan becomes its first trip on the first slice, stacked results with one slice": Row(
            SCAN,
            "Erf",
            'g (float[2] h, float[2] "y/xi") => (float[2] y, float[2,1] t) <int64[1] "y/axes1" = {1}> {'
            ' y = Add (h, "y/xi") "y/so" = Erf (y) s = Unsqueeze ("y/so", "y/axes1") t = Abs (s) }',
        ),
    },
    "drop results of control flow": {
        "a Loop's state becomes what it began with": Row(
            "g (float[2] x, float[2] z) => (float[2] y) <int64 n = {3}, bool t = {1}> {"
            " y, u, s = Loop (n, t, x, z) <body = b (int64 i, bool ci, float[2] v, float[2] w)"
            " => (bool co, float[2] vo, float[2] wo, float[2] so)"
            " { co = Identity (ci) vo = Add (v, w) wo = Exp (w) so = Neg (vo) }> }",
            "",
            "g (float[2] x, float[2] z) => (float[2] y) <int64 n = {3}, bool t = {1}> { y = Loop (n, t, x) <"
            "body = b (int64 i, bool ci, float[2] v) => (bool co, float[2] vo)"
            " { co = Identity (ci) vo = Add (v, z) }> }",
        ),
        "a Scan's slices": Row(
            "g (float[2] h, float[2,3] x) => (float[2] y) { y, s, r = Scan <"
            "num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1, 0],"
            " body = b (float[2] hi, float[2] xi) => (float[2] ho, float[2] so, float[2] ro)"
            " { ho = Add (hi, xi) so = Erf (ho) ro = Exp (ho) }> (h, x) }",
            "",
            "g (float[2] h, float[2,3] x) => (float[2] y) { y = Scan <num_scan_inputs = 1,"
            " scan_input_axes = [1], body = b (float[2] hi, float[2] xi) => (float[2] ho)"
            " { ho = Add (hi, xi) }> (h, x) }",
        ),
        "both branches of an If": Row(
            "g (float[2] x, bool c) => (float[2] y) { y, s = If (c) <"
            "then_branch = t () => (float[2] p, float[2] q) { p = Erf (x) q = Exp (x) },"
            " else_branch = e () => (float[2] r, float[2] u) { r = Neg (x) u = Cos (x) }> }",
            "",
            "g (float[2] x, bool c) => (float[2] y) { y = If (c) <"
            "then_branch = t () => (float[2] p) { p = Erf (x) },"
            " else_branch = e () => (float[2] r) { r = Neg (x) }> }",
        ),
    },
    "shrink bodies": {
        "the result of a body must flow in": Row(
            IF.replace("r = Exp (a)", "s = Exp (a) r = Cos (s)"),
            flows_through("else_branch"),
            "g (float[2] x, bool c) => (float[2] y) { a = Relu (x) y = If (c) <"
            "then_branch = t () => (float[2] p) <float[2] p = {1,1}> { },"
            "else_branch = e () => (float[2] r) { r = Exp (a) }> }",
        ),
        "what the kept nodes read is cut": Row(
            IF.replace("q = Erf (a) p = Neg (q)", "k = Shape (a) q = ConstantOfShape (k) p = Erf (q)"),
            "If Erf",
            "g (float[2] x, bool c) => (float[2] y, float[2] a) { a = Relu (x) y = If (c) <"
            "then_branch = t () => (float[2] p) <float[2] q = {1,1}> { p = Erf (q) },"
            "else_branch = e () => (float[2] r) <float[2] r = {1,1}> { }> }",
        ),
        "the body of a Loop; what it captured is cut": Row(
            LOOP,
            "Loop Neg",
            "g (float[2] x) => (float[2] y, float[3,2] s, float[2] a) <int64 n = {3}, bool t = {1}> {"
            " a = Relu (x) y, s = Loop (n, t, x) <"
            "body = b (int64 i, bool ci, float[2] v) => (bool ci, float[2] v, float[2] so) {"
            " so = Neg (v) }> }",
        ),
    },
    "lift weights out of bodies": {
        "a weight of a body": Row(
            "g (float[2] x, bool c) => (float[2] y) { y = If (c) <"
            "then_branch = t () => (float[2] p) <float[2] w = {1,2}> { p = Add (x, w) },"
            "else_branch = e () => (float[2] r) <float[2] r = {3,4}> { }> }",
            "Add",
            "g (float[2] x, bool c) => (float[2] y) <float[2] w = {1,2}> { y = If (c) <"
            "then_branch = t () => (float[2] p) { p = Add (x, w) },"
            "else_branch = e () => (float[2] r) <float[2] r = {3,4}> { }> }",
        ),
    },
    "plainer operators": {
        "two operands must stay: a sum": Row(
            "g (float[2] x, float[1] w) => (float[2] y) { a = Div (x, w) y = Erf (a) }",
            lambda model: has("Erf")(model) and len(model.graph.input) == 2,
            "g (float[2] x, float[1] w) => (float[2] y) { a = Add (x, w) y = Erf (a) }",
        ),
        "another element type: a Cast": Row(
            "g (float[2] x) => (bool[2] y) { a = IsNaN (x) y = Not (a) }",
            "Not",
            "g (float[2] x) => (bool[2] y) { a = Cast <to = 9> (x) y = Not (a) }",
        ),
    },
    "drop outputs": {
        "outputs that nobody needs, and what made them": Row(
            "g (float[2] x) => (float[2] a, float[2] b, float[2] c) { a = Erf (x) b = Neg (a) c = Exp (b) }",
            "Erf",
            "g (float[2] x) => (float[2] a) { a = Erf (x) }",
        ),
    },
    "drop attributes": {
        "optional attributes, but those that fix a type": Row(
            "g (float[2,3] x) => (float[3,3] y) {"
            " a = Gemm <transA=1, alpha=2.0, beta=0.5> (x, x) y = Softmax <axis=0> (a) }",
            "Gemm",
            "g (float[2,3] x) => (float[3,3] y) { a = Gemm <transA=1> (x, x) y = Softmax (a) }",
        ),
    },
    "omit optional operands": {
        "optional operands": Row(
            "g (float[2] x, float lo, float hi) => (float[2] y) { y = Clip (x, lo, hi) }",
            "Clip",
            "g (float[2] x) => (float[2] y) { y = Clip (x) }",
        ),
        "an optional operand before one that is needed": Row(
            "g (float[2] x, float lo, float hi) => (float[2] y) { y = Clip (x, lo, hi) }",
            lambda model: len(model.graph.node[0].input) == 3,
            "g (float[2] x, float hi) => (float[2] y) { y = Clip (x, , hi) }",
        ),
        "all but one of variadic operands": Row(
            "g (float[2] x, float[3] z, float[1] w) => (float[6] y) { y = Concat <axis=0> (x, z, w) }",
            "Concat",
            "g (float[2] x) => (float[2] y) { y = Concat <axis=0> (x) }",
        ),
    },
    "simplify values": {
        "weights to zeros": Row(
            "g (float[2] x) => (float[2] y) <float[2] w = {1.5,-2.5}> { y = Add (x, w) }",
            "Add",
            "g (float[2] x) => (float[2] y) <float[2] w = {0,0}> { y = Add (x, w) }",
        ),
        "a scale stays one": Row(
            "g (float[2] x) => (uint8[2] y) <float[2] w = {1.5,-2.5}, float s = {0.3}>"
            " { t = Add (x, w) y = QuantizeLinear (t, s) }",
            "QuantizeLinear",
            "g (float[2] x) => (uint8[2] y) <float[2] w = {0,0}, float s = {1}>"
            " { t = Add (x, w) y = QuantizeLinear (t, s) }",
        ),
    },
    "canonical names": {
        "names": Row(
            'g (float[2] "in/put") => (float[2] "out put") <float[2] "w::1" = {1,2}> {'
            ' ["n/1"] t = Add ("in/put", "w::1") "out put" = Neg (t) }',
            "Add",
            "g (float[2] x0) => (float[2] y0) <float[2] w0 = {1,2}> { t0 = Add (x0, w0) y0 = Neg (t0) }",
        ),
    },
    DIMS: {
        "one class must stay above 1": Row(
            "g (float[4,6] x, float[6,5] w) => (float[4,5] y) { y = MatMul (x, w) }",
            dim_of(0, 1, 2),
            "g (float[1,2] x, float[2,1] w) => (float[1,1] y) { y = MatMul (x, w) }",
        ),
        "no less than seven": Row(
            "g (float[16] x) => (float[16] y) { y = Relu (x) }",
            dim_of(0, 0, 7),
            "g (float[7] x) => (float[7] y) { y = Relu (x) }",
        ),
        "weights in bodies follow": Row(
            "g (bool c, float[4,6] x) => (float[4,6] y) { y = If (c) <"
            "then_branch = t () => (float[4,6] p) { p = Neg (x) },"
            "else_branch = e () => (float[1,6] r) <float[1,6] r = {2,2,2,2,2,2}> { }> }",
            dim_of(1, 1, 2),
            "g (bool c, float[1,2] x) => (float[1,2] y) { y = If (c) <"
            "then_branch = t () => (float[1,2] p) { p = Neg (x) },"
            "else_branch = e () => (float[1,2] r) <float[1,2] r = {2,2}> { }> }",
        ),
        "the shape constant of a Reshape": Row(
            "g (float[4,6] x) => (float[6,4] y) <int64[2] s = {6,4}> { y = Reshape (x, s) }",
            dim_of(0, 0, 2),
            "g (float[2,1] x) => (float[1,2] y) <int64[2] s = {1,2}> { y = Reshape (x, s) }",
        ),
        "the kernel must stay": Row(
            "g (float[2,8,5,5] x, float[4,8,3,3] w) => (float[2,4,3,3] y) { y = Conv"
            " <kernel_shape=[3,3]> (x, w) }",
            dim_of(1, 3, 3),
            "g (float[1,1,3,3] x, float[1,1,3,3] w) => (float[1,1,1,1] y) { y = Conv"
            " <kernel_shape=[3,3]> (x, w) }",
        ),
        "the groups of a Conv": Row(
            "g (float[1,8,4,4] x, float[8,1,3,3] w) => (float[1,8,2,2] y) { y = Conv <group=8> (x, w) }",
            lambda model: model.graph.node[0].attribute[0].i >= 2,
            "g (float[1,2,1,1] x, float[2,1,1,1] w) => (float[1,2,1,1] y) { y = Conv <group=2> (x, w) }",
        ),
        "a symbolic dim stays symbolic": Row(
            "g (float[N,6] x) => (float[N,6] y) { y = Relu (x) }",
            "Relu",
            "g (float[N,1] x) => (float[N,1] y) { y = Relu (x) }",
        ),
    },
}


@pytest.mark.parametrize(
    ("move", "claim"), [(move, claim) for move, rows in TABLES.items() for claim in rows]
)
def test_a_move(judge, move, claim):
    row = TABLES[move][claim]
    driven = _drive(judge, move, row)
    assert graph_text(driven.subject.model) == graph_text(model_of(row.after, row.header))
    assert size(driven.subject) < size(subject_of(judge, case_of(model_of(row.before, row.header))))
