"""What is only the author's: names, remarks and newer operator sets than the operators need."""

from collections.abc import Callable, Mapping

import onnx
import pytest
from onnx import helper, printer

from corpus.onnx.check import checker_complaint
from corpus.onnx.graph import walk_all_graphs, walk_model
from corpus.values import Value
from oracles.judge import Judge
from reducer.move import Hints
from reducer.moves.exhaust_small import look_at_subsets
from reducer.moves.names import renamed
from reducer.subject.onnx.retype import lowered, retype_outputs
from reducer.subject.order import size
from tests.reducer.driving import Driven, case_of, drive, ended, find_move, model_of, subject_of

NAMES, OPSETS = "canonical names", "lower operator sets"
STRIP = "strip annotations, documentation and Constant nodes"
IsInteresting = Callable[[onnx.ModelProto], bool]


def _drive(judge: Judge, move: str, model: onnx.ModelProto, keeps: IsInteresting = bool) -> Driven:
    assert checker_complaint(model) is None

    def is_interesting(candidate: onnx.ModelProto, inputs: Mapping[str, Value]) -> bool:
        assert checker_complaint(candidate) is None
        return keeps(candidate)

    return drive(find_move(move), subject_of(judge, case_of(model)), is_interesting)


def imports(model: onnx.ModelProto) -> dict[str, int]:
    return {item.domain: item.version for item in model.opset_import}


def newer_than(version: int) -> IsInteresting:
    return lambda model: imports(model)[""] > version


CHAIN = "g (float[2] x) => (float[2] y) { a = Erf (x) y = Neg (a) }"
RELU = "g (float[2] x) => (float[2] y) { y = Relu (x) }"
NOT = "g (bool[2] x) => (bool[2] y) { y = Not (x) }"
OWN = "g (float[2] x) => (float[2] y) { a = Erf (x) y = house.own.Fold (a) }"
BODY = (
    "g (float[2] x, bool c) => (float[2] y) { y = If (c) <"
    "then_branch = t () => (float[2] p) { p = Relu (x) },"
    " else_branch = e () => (float[2] r) { r = Neg (x) }> }"
)


@pytest.mark.parametrize(
    ("text", "sets", "keeps", "after"),
    {
        "the newest of what the operators need": (CHAIN, {"": 17}, bool, {"": 13}),
        "as old as runtimes go": (NOT, {"": 17}, bool, {"": 7}),
        "operators in bodies count": (BODY, {"": 17}, bool, {"": 16}),
        "none that the failure is too new for": (RELU, {"": 21}, newer_than(16), {"": 17}),
        "unused domains go": (CHAIN, {"": 17, "com.microsoft": 1, "house.own": 3}, bool, {"": 13}),
        "an operator that onnx does not know": (
            OWN,
            {"": 17, "house.own": 3},
            bool,
            {"": 13, "house.own": 3},
        ),
    }.values(),
)
def test_operator_sets(judge, text, sets, keeps, after):
    header = ", ".join(f'"{domain}" : {version}' for domain, version in sets.items())
    model = model_of(text, f"<ir_version: 8, opset_import: [{header}]>")
    driven = _drive(judge, OPSETS, model, keeps)
    assert imports(driven.subject.model) == after
    assert (size(driven.subject) < size(subject_of(judge, case_of(model)))) == (dict(sets) != dict(after))


def test_lower_versions_mean_the_same(judge):
    """Each operator has the very schema that it had, in functions and bodies too."""
    model = model_of(FUNCTIONS, "")
    versions = imports(model)[""], imports(lowered(subject_of(judge, case_of(model))).model)[""]
    assert versions == (17, 16)
    for node in walk_model(model):
        if not node.domain:
            before, after = (
                onnx.defs.get_schema(node.op_type, version).since_version for version in versions
            )
            assert before == after


def test_names_and_operator_sets_are_one_question(judge):
    driven = _drive(judge, NAMES, model_of(CHAIN))
    assert (driven.asked, imports(driven.subject.model)) == (1, {"": 13})
    assert _drive(judge, OPSETS, driven.subject.model).asked == 0


def test_where_the_operator_set_is_needed_names_are_canonical_all_the_same(judge):
    driven = _drive(judge, NAMES, model_of(CHAIN), newer_than(16))
    assert [info.name for info in driven.subject.model.graph.input] == ["x0"]
    assert imports(driven.subject.model)[""] == 17


FUNCTIONS = """<ir_version: 10, opset_import: ["" : 17, "acme.nets" : 4]>
g (float[2] pixels, bool flag) => (float[2] scores)
{ scores = acme.nets.Squash <strength = 2.0> (pixels, flag) }
<opset_import: ["" : 17, "acme.nets" : 4], domain: "acme.nets"> Squash <strength> (image, wanted) => (result)
{ [lift] scaled = acme.nets.Lift <by : float = @strength> (image)
  result = If (wanted) <then_branch = yes () => (float[2] p) { inner = Relu (scaled) p = Abs (inner) },
    else_branch = no () => (float[2] q) { q = Neg (image) }> }
<opset_import: ["" : 17], domain: "acme.nets"> Lift <by> (image) => (lifted)
{ k = Constant <value_float : float = @by> () lifted = Mul (image, k) }"""

PLAIN = """<opset_import: ["" : 16, "local0" : 1], domain: "local0"> f0 <a0> (v0, v1) => (v3)
{ v2 = local0.f1 <a1: float = @a0> (v0)
  v3 = If (v1) <then_branch: graph = g1 () => (float[2] v4) { v5 = Relu (v2) v4 = Abs (v5) },
    else_branch: graph = g2 () => (float[2] v6) { v6 = Neg (v0) }> }
<opset_import: ["" : 16], domain: "local0"> f1 <a1> (v0) => (v2)
{ v1 = Constant <value_float: float = @a1> () v2 = Mul (v0, v1) }"""


def _function_texts(model: onnx.ModelProto) -> list[str]:
    return " ".join(" ".join(printer.to_text(each) for each in model.functions).split()).split()


def test_names_in_functions(judge):
    model = model_of(FUNCTIONS, "")
    reduced = _drive(judge, NAMES, model).subject.model
    assert set(imports(reduced)) == {"", "local0"}
    assert "acme" not in str(reduced)
    (call,) = reduced.graph.node
    assert (call.domain, call.op_type, call.attribute[0].name) == ("local0", "f0", "a0")
    parsed = model_of(
        "g (float x) => (float y) { y = Neg (x) }" + PLAIN, '<ir_version: 10, opset_import: ["" : 16]>'
    )
    assert _function_texts(reduced) == _function_texts(parsed)
    assert _drive(judge, NAMES, reduced).asked == 0


def test_overloads_of_a_function_become_functions_of_their_own(judge):
    model = model_of(
        """<ir_version: 10, opset_import: ["" : 17, "acme" : 1]>
        g (float[2] x) => (float[2] y) { a = acme.f (x) y = acme.f (a) }
        <opset_import: ["" : 17], domain: "acme"> f (p) => (q) { q = Erf (p) }
        <opset_import: ["" : 17], domain: "acme"> f2 (p) => (q) { q = Neg (p) }""",
        "",
    )
    model.functions[1].name = "f"
    for number, item in enumerate((*model.functions, *model.graph.node)):
        item.overload = "ab"[number % 2]
    reduced = renamed(subject_of(judge, case_of(model))).model
    assert [node.op_type for node in reduced.graph.node] == ["f0", "f1"]
    assert [node.op_type for each in reduced.functions for node in each.node] == ["Erf", "Neg"]
    assert not any(item.overload for item in (*reduced.functions, *reduced.graph.node))


def test_remarks_go_from_wherever_they_stand(judge):
    model = model_of(FUNCTIONS, "")
    model.graph.initializer.append(helper.make_tensor("w", onnx.TensorProto.FLOAT, [1], [1]))
    typed = helper.make_tensor_value_info("scaled", onnx.TensorProto.FLOAT, [2])
    model.functions[0].value_info.append(typed)
    graphs, nodes = list(walk_all_graphs(model)), list(walk_model(model))
    infos = [info for graph in graphs for info in (*graph.input, *graph.output)]
    marked = [model, *model.functions, *graphs, *nodes, *infos, *model.graph.initializer, typed]
    for item in marked:
        item.doc_string = "someone's remark"
        item.metadata_props.add(key="author", value="someone")
    for node in nodes:
        for attribute in node.attribute:
            attribute.doc_string = "someone's remark"
    assert checker_complaint(model) is None
    bare = _drive(judge, STRIP, model).subject.model
    assert "some" not in str(bare)
    assert not any(holder.value_info for holder in (*walk_all_graphs(bare), *bare.functions))


# Nodes on the way to a computed size, and the last look at every subset of few nodes


def test_two_nodes_go_together_where_neither_goes_alone(judge):
    text = "g (float[2] x) => (float[2] y) { a = Neg(x) b = Abs(a) c = Exp(b) d = Log(c) y = Sqrt(d) }"
    subject = subject_of(judge, case_of(model_of(text)))

    def pairs(model: onnx.ModelProto) -> bool:
        operators = [node.op_type for node in model.graph.node]
        return operators in (["Neg", "Abs", "Exp", "Log", "Sqrt"], ["Neg", "Abs", "Sqrt"])

    found = ended(
        look_at_subsets(subject, Hints(is_thorough=True)),
        lambda proposal: (candidate := proposal()) is not None and pairs(candidate.model),
    )
    assert [node.op_type for node in found.nodes] == ["Neg", "Abs", "Sqrt"]


def test_the_usual_last_look_is_bounded(judge):
    nodes = " ".join(f"v{i + 1} = Neg(v{i})" for i in range(8))
    text = f"g (float[2] v0) => (float[2] v8) {{ {nodes} }}"
    subject = subject_of(judge, case_of(model_of(text)))
    asked: list[object] = []
    ended(look_at_subsets(subject, Hints(looks=20)), lambda proposal: asked.append(proposal))
    assert len(asked) == 12


def test_values_of_bodies_keep_a_shape_when_outputs_are_typed_again():
    body = (
        "step (int64[] i, bool[] go, float[2,3] state) => (bool[] on, float[2,3] next)"
        " { on = Identity(go) next = Add(state, state) }"
    )
    model = model_of(
        "g (float[2,3] x) => (float[2,3] y)"
        " { n = Constant<value = int64[1] {3}>() y = Loop<body = B>(n, , x) }".replace("B", body)
    )
    onnx.checker.check_model(model, full_check=True)
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 5
    retype_outputs(model)
    onnx.checker.check_model(model, full_check=True)
    assert [dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim][-1:] in ([5], [0])
