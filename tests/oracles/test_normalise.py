"""Messages without what changes, and the C++ sites in them."""

from __future__ import annotations

import pytest

from oracles.text.normalise import function_name, parse_message, template

APPLY = (
    "[ONNXRuntimeError] : 1 : FAIL : Exception during initialization: "
    "/onnxruntime_src/onnxruntime/core/optimizer/relu_clip_fusion.cc:83 virtual onnxruntime::common::Status "
    "onnxruntime::FuseReluClip::Apply(onnxruntime::Graph&, onnxruntime::Node&, "
    "onnxruntime::RewriteRule::RewriteRuleEffect&, const onnxruntime::logging::Logger&) const "
    "Unexpected data type for Clip 'min' input of 11"
)
POOL = (
    "[ONNXRuntimeError] : 1 : FAIL : Exception during initialization: "
    "/onnxruntime_src/onnxruntime/core/providers/cpu/nn/pool_attributes.h:88 "
    "onnxruntime::PoolAttributes::PoolAttributes(const KernelInfoType&, const std::string&, int) "
    "[with KernelInfoType = onnxruntime::OpKernelInfo; std::string = std::__cxx11::basic_string<char>] "
    "pads[dim] < kernel_shape[dim] was false. Pad should be smaller than kernel."
)
NESTED = (
    "[ONNXRuntimeError] : 1 : FAIL : "
    "Non-zero status code returned while running Loop node. Name:'/blk.0/Loop' Status Message: "
    "Non-zero status code returned while running Reshape node. Name:'/blk.0/rs' Status Message: "
    "/onnxruntime_src/onnxruntime/core/providers/cpu/tensor/reshape_helper.h:91 "
    "onnxruntime::ReshapeHelper::ReshapeHelper(const onnxruntime::TensorShape&, TensorShapeVector&, bool) "
    "input_shape_size == requested_shape_size was false. Input shape:{3,5}, requested shape:{3,99}"
)
SHORT = (
    "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Mod node. Name:'m' Status "
    "Message: element_wise_ops.cc:2256 operator() Integer modulo by zero"
)


@pytest.mark.parametrize(
    ("message", "site", "op", "start"),
    [
        (APPLY, "relu_clip_fusion.cc FuseReluClip::Apply", "", "Unexpected data type"),
        (POOL, "pool_attributes.h PoolAttributes::PoolAttributes", "", "pads[dim] <"),
        (NESTED, "reshape_helper.h ReshapeHelper::ReshapeHelper", "Reshape", "input_shape_size =="),
        (SHORT, "element_wise_ops.cc operator()", "Mod", "Integer modulo by zero"),
        ("Node (a) Op (Gemm) [ShapeInferenceError] bad", "", "Gemm", "Node (a)"),
        ("Could not find an implementation for Erf(13) node with name ''", "", "Erf", "Could not"),
        ("cannot reshape array of size 4 into shape (2,3)", "", "", "cannot reshape"),
    ],
)
def test_a_message_gives_its_site_and_its_innermost_operator(
    message: str, site: str, op: str, start: str
) -> None:
    parsed = parse_message(message)
    assert (parsed.site, parsed.op) == (site, op)
    assert parsed.rest.startswith(start) or start in parsed.rest[:200]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Node input 'v4' is not a graph input", "Node input '/enc/x.1' is not a graph input"),
        ("indices out of bounds, idx=17 in [-3,2]", "indices out of bounds, idx=-9 in [0,12]"),
        ("Input shape:{3,4}, requested {5,7}", "Input shape:{2}, requested {1,1,1}"),
        ("no output: v7.", "no output: layer/out_3."),
        ("at 0x7f3a00 in /tmp/abc/model.onnx", "at 0x55aa in /home/me/other/model.onnx"),
        ("/build_a/core/x.cc:12 failed", "/onnxruntime_src/core/x.cc:99 failed"),
        ("\x1b[1;31mbroken\x1b[m", "broken"),
        ("2026-11-20 18:43:31.32 [E:onnxruntime:, s.cc:5 Run] broken", "broken"),
        ("[ONNXRuntimeError] : 1 : FAIL : broken", "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : broken"),
        ("4 by 5", "13 by 2"),
        ("The LHS x has", "The LHS y2 has"),
    ],
)
def test_what_changes_from_run_to_run_is_dropped(one: str, other: str) -> None:
    assert template(one) == template(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Type 'tensor(int8)' is invalid", "Type 'tensor(double)' is invalid"),
        ("does not match INT8", "does not match UINT8"),
        ("Pad should be smaller than kernel", "Pad should be smaller than input"),
    ],
)
def test_what_tells_bugs_apart_stays(one: str, other: str) -> None:
    assert template(one) != template(other)


def test_the_models_own_names_are_dropped_wherever_they_stand() -> None:
    assert (
        template("merge of layer_a and layer_b failed", ["layer_a", "layer_b"]) == "merge of * and * failed"
    )


def test_a_template_is_a_fixed_point() -> None:
    for message in (APPLY, POOL, NESTED, SHORT):
        once = template(parse_message(message).rest)
        assert template(once) == once


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("void onnxruntime::BroadcastIterator::Init(ptrdiff_t, ptrdiff_t)", "BroadcastIterator::Init"),
        ("static ns::Vector<ns::Map<int, A>> ns::Base<T>::Make(const A&)", "Base::Make"),
        ("void* onnxruntime::BFCArena::AllocateRawInternal(size_t)", "BFCArena::AllocateRawInternal"),
        ("tvm::ffi::Optional<tvm::X> tvm::relax::CheckShape(const tvm::Call&)", "CheckShape"),
    ],
)
def test_a_function_is_known_by_its_class_and_name(signature: str, name: str) -> None:
    assert function_name(signature) == name


def test_rendered_operators_and_code_leave_their_names() -> None:
    text = (
        'ir.Op(span=None, ty=ir.Type(span=None), name="relax.sqrt", description="x", arguments=(), '
        "num_inputs=1, support_level=10) requires a float, but R.add(lv2, R.const(0, dtype)) is not\n"
        "  %10 = fcmp oeq i1 %6, %9, !dbg !42\n"
    )
    assert template(text) == "relax.sqrt requires a float, but R.add(*) is not"


def test_of_what_a_compiler_writes_its_first_complaint_is_the_message() -> None:
    message = (
        "CppCompileError: C++ compile error\n\nCommand:\ng++ /tmp/x/c1.cpp -O3 -o /tmp/x/c1.so\n\nOutput:\n"
        "/tmp/x/c1.cpp: In function 'void kernel()':\n/tmp/x/c1.cpp:22:57: error: no match for 'f(int)'\n"
        "   22 |  f(x)\n/tmp/x/c1.cpp:23:1: error: another\n"
    )
    assert parse_message(message).rest == "CppCompileError: no match for 'f(int)'"


def test_a_node_without_a_name_says_the_same():
    named, nameless = "Node Size_v12 cannot handle ShapeExpr inputs.", "Node  cannot handle ShapeExpr inputs."
    assert template(named, ["Size_v12"]) == template(nameless)
