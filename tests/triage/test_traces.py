"""Raw traces are clustered by what they say, and by nothing else."""

import itertools
import json
import random

import pytest

from corpus.errors import UserError
from oracles.naming import Signature
from tests.helpers.commands import crux
from triage.causes.explaining import says_the_same
from triage.clustering.grouping import cluster_traces, read_traces
from triage.clustering.linkage import average_linkage
from triage.clustering.similarity import MERGE, RELATED, compare

LIBRARY = "/opt/venv/lib/python3.11/site-packages/onnxruntime/capi/onnxruntime_inference_collection.py"


def exception(words, line=220, script="a.py"):
    return f"""Traceback (most recent call last):
  File "/home/me/{script}", line {line}, in <module>
    session.run(None, feeds)
  File "{LIBRARY}", line {line}, in run
    return self._sess.run(output_names, input_feed, run_options)
onnxruntime.capi.onnxruntime_pybind11_state.Fail: [ONNXRuntimeError] : 1 : FAIL : {words}
"""


def crash(line, thread="0x00007f8a38e26b80"):
    return f"""Fatal Python error: Floating point exception

Current thread {thread} (most recent call first):
  File "{LIBRARY}", line 220 in run
  File "/home/me/cases.py", line {line} in <module>
[exit 136]
"""


def concat(name, axis, size):
    where = f"Non-zero status code returned while running Concat node. Name:'{name}' Status Message: "
    what = f"Non concat axis dimensions must match: Axis {axis} has mismatched dimensions of {size} and 3"
    return exception(f"{where}/src/core/concat.cc:77 PrepareForCompute {what}", line=size)


TEXTS = {
    "one": concat("/a/Concat_1", 1, 4),
    "two": concat("n7", 2, 90),
    "three": exception(
        "Non-zero status code returned while running Gather node. Name:'g' Status Message: bad"
    ),
    "four": exception("Non-zero status code returned while running Tile node. Name:'g' Status Message: bad"),
    "five": crash(7),
    "six": crash(7, "0x00007ff7d661fb80"),
    "seven": crash(8),
    "eight": "[exit 124]",
    "nine": "free(): invalid pointer\nAborted (core dumped)\n[exit 134]",
    "ten": "terminate called\n  what():  vector::_M_range_check: __n (which is 4)\n[exit 134]",
    "eleven": "terminate called\n  what():  vector::_M_range_check: __n (which is 9)\n[exit 134]",
}


def together(found):
    groups = {}
    for name, cluster in found.items():
        groups.setdefault(cluster, set()).add(name)
    return sorted(map(sorted, groups.values()))


def test_names_numbers_and_addresses_do_not_tell_bugs_apart_and_operators_do():
    found = together(cluster_traces(TEXTS))
    apart = [["eight"], ["four"], ["nine"], ["seven"], ["three"]]
    assert found == sorted([["eleven", "ten"], ["five", "six"], ["one", "two"], *apart])


def test_neither_order_nor_file_names_change_a_cluster():
    found = cluster_traces(TEXTS)
    names = list(TEXTS)
    random.Random(0).shuffle(names)
    assert cluster_traces({name: TEXTS[name] for name in names}) == found
    renamed = cluster_traces({f"x{name}": TEXTS[name] for name in names})
    assert renamed == {f"x{name}": cluster for name, cluster in found.items()}


def test_the_command_gives_one_document_of_files_and_clusters(tmp_path):
    for name, text in TEXTS.items():
        (tmp_path / f"{name}.txt").write_text(text)
    (tmp_path / "labels.json").write_text("{}")
    done = crux(tmp_path, "triage", "traces", ".", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {f"{name}.txt": each for name, each in cluster_traces(TEXTS).items()}


def test_bytes_that_are_no_text_are_read_nevertheless(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00 Segmentation fault\n[exit 139]")
    assert list(cluster_traces(read_traces(tmp_path))) == ["a.txt"]


def test_a_folder_without_traces_is_refused(tmp_path):
    with pytest.raises(UserError, match="no trace texts"):
        read_traces(tmp_path)


# Which signatures are one bug, which are related, which are neither


def declared(site, kind="shape"):
    return Signature.of(("backend", "ort"), ("outcome", "mismatch"), ("site", site), ("kind", kind))


BROKEN = "[ShapeInferenceError] "
AXIS = f"{BROKEN}Inference error(s): (op_type:{{}}: {BROKEN}axis must be in [-rank, rank-*]."
LET, SHAPE_ARG = "expr.cc Let::Let", "vm_shape_lower.cc MakeSymbolicShapeArg"
RESHAPE = "The input tensor cannot be reshaped to the requested shape. Input shape:{*}, requested shape:{*}"
FUNCTOR = "expr_functor.h ExprFunctor::VisitExprDefault_"
MERGE_SHAPES = "Can't merge shape info. Both {} dimension have values but they differ"


def ort(**components):
    return Signature.of(("backend", "ort"), ("outcome", "exception"), *components.items())


def tvm(**components):
    return Signature.of(("backend", "tvm"), ("outcome", "exception"), *components.items())


def died(**components):
    return Signature.of(("backend", "ort"), ("outcome", "crash"), *components.items())


def wrong(passes, ops, kind="value"):
    facts = (("passes", passes), ("ops", ops), ("kind", kind))
    return Signature.of(("backend", "ort"), ("outcome", "mismatch"), *facts)


def varied(first, **change):
    """A signature, and the same with other components."""
    facts = {**dict(first.components), **change}
    return first, Signature.of(*((name, text) for name, text in facts.items() if text))


CALL = tvm(rewritten="s_tir.A", message="Cannot treat type `IntImm` as type `Call`")
CAST = tvm(message="Cannot treat type `GenericConst` as type `Var`")
CHECK = tvm(site=SHAPE_ARG, message="has not been computed", side="optimised")
DIED = died(signal="SIGSEGV", ops="LSTM", operands="0 is empty")
MACHINE = died(signal="SIGSEGV", site="tvm::runtime::memory::StorageObj::AllocTensor", ops="if relax.exp")
PADDED = wrong("Pad_Fusion", "Pad:float32 MaxPool:float32")
REFUSED = ort(side="optimised", op="Gemm", message="Dimension mismatch", rewrite="-Transpose by A")
REWRITTEN = wrong("A", "Mul:float32 Add:float32")
RULE = declared(AXIS.format("ReduceSumSquare)"), "accepted")
UNTYPED = ort(op="Squeeze", message="no kernel", **{"ill-typed": "float8 by A B"})

ONE_BUG = {
    "a rewrite of integers and floats": varied(REWRITTEN, ops="Mul:int32 Add:int32"),
    "a function that moved to another file": varied(
        ort(site="concat.cc PrepareForCompute", message="Non concat axis dimensions must match"),
        site="concatbase.h PrepareForComputeImpl",
    ),
    "a few words said otherwise": varied(
        ort(op="Concat", message=MERGE_SHAPES.format("source and target")),
        message=MERGE_SHAPES.format("inferred and declared"),
    ),
    "damaged memory of one operator": varied(DIED, signal="SIGABRT"),
    "an Identity beside what is wrong": varied(
        wrong("", "Scan:int64", "nondeterministic"), ops="Scan:float64 Identity:float64"
    ),
    "a rewrite that is refused in two texts": varied(REFUSED, message="Invalid bias shape"),
    "a lacking type that passes leave": varied(UNTYPED, op="Transpose", message="not implemented"),
    "a broken rule": varied(RULE, site=AXIS.format("ReduceSumSquare, node name: *")),
    "what an optimiser may drop": varied(tvm(site=LET, message="boom"), side="un-optimised"),
    "a check that is met in two ways": varied(CHECK, side=""),
    "operands of which one is special in both": varied(DIED, operands="0 is empty; 2 is empty"),
    "operands of which one knows nothing": varied(DIED, operands=""),
    "a wrong rewrite with another operator before it": varied(
        REWRITTEN, passes="A ScaleFusion", ops="Mul:float32 Abs:float32 Add:float32"
    ),
    "integers and floats by unknown passes": varied(
        wrong("", "Not:bool Where:int32", "off by one"), ops="Not:bool Where:float32", kind="zeros"
    ),
    "a wrong shape": varied(wrong("", "ReduceSum:int32", "shape"), ops="ReduceSum:float32"),
    "an operator that only moves elements": varied(wrong("", "Gather:int32"), ops="Gather:float32"),
    "a graph of another format": varied(wrong("", "float32 relu add"), ops="float64 relu add"),
    "zero on this input": varied(PADDED, kind="zeros"),
}
TWO_BUGS = {
    "two refused rewrites": varied(REFUSED, message="Invalid bias shape", rewrite="-Sum by B"),
    "two operators that break their declaration": varied(declared("Reduction"), site="GatherND"),
    "a rule that two operators break": varied(RULE, site=AXIS.format("Pad)")),
    "two checks at one site": varied(CHECK, message="boom", side=""),
    "two passes that take nodes for others": varied(CALL, rewritten="s_tir.B"),
    "deaths in two functions": varied(MACHINE, site="fast_copy", ops="if relax.full"),
    "other special operands": varied(DIED, operands="1 is left out"),
    "two kinds of node that a functor has no case for": varied(
        tvm(site=FUNCTOR, message="Do not have a default for GlobalVar"),
        message="Do not have a default for StringImm",
    ),
    "two kinds of node in one cast": varied(CAST, message="Cannot treat type `Tuple` as type `Var`"),
    "two missing attributes": varied(
        tvm(op="Expand", message="'*' object has no attribute value"),
        message="'*' object has no attribute shape",
    ),
    "one text, two operators": varied(
        ort(op="Gather", message="indices element out of data bounds, idx=*"), op="Scatter"
    ),
    "one text that names two operators": varied(
        tvm(message="The following operators are not supported for frontend ONNX: Det"),
        message="The following operators are not supported for frontend ONNX: StringNormalizer",
    ),
    "two texts of one site": varied(
        ort(site="reshape_helper.h ReshapeHelper::ReshapeHelper", message=RESHAPE),
        message="Invalid size of the shape tensor",
    ),
    "one pass, two patterns": varied(PADDED, ops="Pad:float32 AveragePool:float32"),
    "one pattern, two passes": varied(REWRITTEN, passes="B"),
    "integers and floats, no rewrite": varied(wrong("", "Mod:int32"), ops="Mod:float32"),
    "a value and NaN": varied(wrong("A", "Pow:float32"), kind="nan"),
    "two operators without a pass": varied(wrong("", "Mod:int8"), ops="Mod:int8 Add:int8"),
    "two backends": varied(ort(op="Add", message="boom"), backend="tvm"),
    "an arithmetic and a memory signal": varied(died(signal="SIGFPE", ops="Div"), signal="SIGSEGV"),
    "one signal, two operators": varied(died(signal="SIGFPE", ops="Div"), ops="Mod"),
    "with optimisation only, and always": varied(
        ort(side="optimised", op="Add", message="boom"), side="both"
    ),
}


@pytest.mark.parametrize(("first", "second"), ONE_BUG.values(), ids=ONE_BUG.keys())
def test_one_bug(first, second):
    assert first != second
    assert compare(first, second).distance <= MERGE


def test_what_is_said_un_optimised_says_the_same_and_what_is_optimised_does_not():
    said = "exception | optimise | InternalError | expr.cc Let::Let | boom"
    assert says_the_same(f"{said} | un-optimised", said)
    assert not says_the_same(f"{said} | optimised", said)


@pytest.mark.parametrize(("first", "second"), TWO_BUGS.values(), ids=TWO_BUGS.keys())
def test_two_bugs(first, second):
    assert compare(first, second).distance > MERGE


def test_the_shares_of_a_comparison_add_up_to_one_whatever_is_missing():
    every = {each for pair in (*ONE_BUG.values(), *TWO_BUGS.values()) for each in pair}
    for first, second in itertools.combinations(every, 2):
        compared = compare(first, second)
        shares = [part.weight for part in compared.parts]  # none of what is the same
        assert compared.obstacle or not shares or sum(shares) == pytest.approx(1)
        assert compared.distance == compare(second, first).distance


def test_one_text_at_two_operators_is_related():
    assert compare(*TWO_BUGS["one text, two operators"]).distance <= RELATED


DISTANCES = {"ab": 0.1, "bc": 0.2, "ac": 0.4, "cd": 0.24, "ad": 0.9, "bd": 0.9}


def distance(one, two):
    return DISTANCES["".join(sorted((one, two)))]


def test_a_partition_is_the_same_in_any_order():
    found = {average_linkage(order, distance, 0.25) for order in itertools.permutations("abcd")}
    assert found == {(("a", "b"), ("c", "d"))}


def test_the_cut_is_for_the_average_of_all_pairs():
    assert average_linkage("abc", distance, 0.35) == (("a", "b", "c"),)
    assert average_linkage("abc", distance, 0.29) == (("a", "b"), ("c",))


def test_pinned_items_stay_where_they_are_put():
    assert average_linkage("abc", distance, 0.35, {"a": 1, "b": 2}) == (("a",), ("b", "c"))
    assert average_linkage("ad", distance, 0.3, {"a": 1, "d": 1}) == (("a", "d"),)
