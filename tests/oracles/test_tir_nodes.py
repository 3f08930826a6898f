"""TVM's nodes as trees and back: the identity on every construct, and on what the importer and legaliser
make.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

from corpus.tir.program import from_bytes, from_json, has_blocks, to_bytes, to_json
from corpus.tir.scopes import problems
from corpus.tir.script import print_text
from corpus.tir.tree import Alloc, Block, Evaluate, For, Function, Match, Module, Store
from corpus.tir.typing import FLOAT_FUNCTIONS, INTRINSICS, call_type
from corpus.tir.values import Buffer, Call, Const, Load, Range, Region, Var
from corpus.tir.walk import buffers, with_buffer
from generators import make_case
from generators.tir.programs import make_program

tvm = pytest.importorskip("tvm")
tvm_ffi = pytest.importorskip("tvm_ffi")
sys.path.insert(0, str(Path(__file__).parent))

from tvm import tirx  # noqa: E402
from tvm.script import tirx as T  # noqa: E402

from oracles.worker.tvm.tir.build import build_module  # noqa: E402
from oracles.worker.tvm.tir.read import read_module  # noqa: E402
from oracles.worker.tvm.types import NotData  # noqa: E402
from tests.oracles.tir_samples import SAMPLES  # noqa: E402


def assert_identity(module: Any) -> None:
    """Read → tree → document → tree → built is the module again, and reads the same."""
    document = json.loads(json.dumps(read_module(module)))
    program = from_json(document)
    assert from_bytes(to_bytes(program)) == program
    assert json.loads(json.dumps(to_json(program))) == document
    built = build_module(document)
    assert tvm_ffi.structural_equal(module, built)
    assert json.loads(json.dumps(read_module(built))) == document
    assert problems(program) == []


@pytest.mark.parametrize("name", SAMPLES)
def test_each_construct_is_read_and_built_again(name):
    assert_identity(SAMPLES[name])


OF_BLOCKS = [made for made in (make_program(seed, 8).module for seed in range(50)) if has_blocks(made)]


@pytest.mark.parametrize("number", range(7))
def test_tvms_text_says_what_is_made_of_blocks(number):
    module = OF_BLOCKS[number]
    assert "tirx as T" in print_text(module).split("@I.ir_module")[0]
    assert_said(module)
    assert_identity(build_module(json.loads(to_bytes(module))))


def test_what_is_matched_to_a_region_keeps_to_the_scope_and_the_alignment_of_its_source():
    source, zero = Buffer("A", (Const(4),), "float32"), (Const(0),)
    match = Match(replace(source, name="M", offset=Var("o")), Region("A", (Range(Const(0), Const(4)),)))
    block = Block("b", (), (), (), (Store("A", zero, Load("M", zero, "float32")),), matches=(match,))
    changed = with_buffer(Function((source,), (block,)), replace(source, align=16, scope="local"))
    found = {each.name: (each.align, each.scope) for each in buffers(changed)}
    assert found["A"] == found["M"] == (16, "local")


def assert_said(module: Module) -> None:
    """What TVM reads from our text is the module."""
    text = print_text(module).split("@I.ir_module", 1)[1]
    found = tvm.script.from_source(f"@I.ir_module{text}")
    assert tvm_ffi.structural_equal(found, build_module(json.loads(to_bytes(module))))


def main(*body: Any, params: tuple[Any, ...] = (), **attrs: Any) -> Module:
    return Module({"main": Function(params, body, attrs={"global_symbol": "main", **attrs})})


SCALAR = Buffer("S", (), "float32", offset=Const(0), scope="local")
INFINITE = Call("isinf", (Const(1.0, "float32"),), "bool")
ROOT = Block("root", (), (), (), (Store("A", (Const(0),), Load("B", (Const(0),), "float32")),))
ONE_LONG = (Region("B", (Range(Const(0), Const(1, "int64")),)),)
B = Buffer("B", (Const(1),), "float32")
EASY_TO_CHANGE = {
    "a buffer of no dims with an offset that is not TVM's own": (
        Alloc(SCALAR),
        Store("S", (), Const(1.0, "float32")),
    ),
    "a choice by what folds": (
        Store(
            "A",
            (Const(0),),
            Call("if_then_else", (INFINITE, *(Const(float(i), "float32") for i in (1, 2))), "float32"),
        ),
    ),
    "a root within another one": (replace(ROOT, body=(ROOT, ROOT)),),
    "an extent of one in another type": (
        Block("b", (), ONE_LONG, (Region("A", (Range(Const(0), Const(1)),)),), ROOT.body),
    ),
}


@pytest.mark.parametrize("name", EASY_TO_CHANGE)
def test_text_says_what_tvm_would_change_or_leave_out(name):
    assert_said(main(*EASY_TO_CHANGE[name], params=(Buffer("A", (Const(1),), "float32"), B), s_tir=True))


@pytest.mark.parametrize("name", ["T", "Module"])
def test_text_reads_no_name_of_the_program_as_its_own(name):
    one = Load("B", (Var("i"),), "float32")
    loop = For(Var("i"), Const(0), Const(1), "serial", (Store(name, (Var("i"),), one),))
    assert_said(main(loop, params=(Buffer(name, (Const(1),), "float32"), B)))


UNARY = [*FLOAT_FUNCTIONS, "fabs", "isnan", "popcount", "clz"]
TYPES = ["float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "uint8"]


def calls_of(dtype: str) -> Iterator[Call]:
    """A call of each function of one number, or two, that takes this type."""
    one = Load("X", (Const(0),), dtype)
    for name in (*UNARY, "pow", "atan2", "copysign", "hypot", "nextafter", "fmod"):
        operands = INTRINSICS[name].operands
        if operands[0] == "number" or ("float" in dtype) == operands[0].startswith("float"):
            args = (one,) * len(operands)
            yield Call(name, args, call_type(name, args) or dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_text_says_each_call_in_each_type(dtype):
    assert_said(main(*map(Evaluate, calls_of(dtype)), params=(Buffer("X", (Const(1),), dtype),)))


def test_what_tvms_functions_spell_out_is_built_and_read_as_they_do():
    found = json.dumps(read_module(build_module(json.loads(to_bytes(SPELLED_OUT)))))
    assert "T.isinf(B[0])" in print_text(SPELLED_OUT)
    assert "isinf" not in found
    assert "fabs" in found


ISINF = Call("isinf", (Load("B", (Const(0),), "float32"),), "bool")
SPELLED_OUT = Module({"main": Function((B,), (Evaluate(ISINF),))})


def lowered(module: Any) -> Any:
    """Blocks as loops, then loops over flat buffers."""
    blocks = tvm.s_tir.transform
    passes = [
        blocks.LowerInitBlock(),
        blocks.PlanAndUpdateBufferAllocationLocation(),
        blocks.ConvertBlocksToOpaque(),
        blocks.CompactBufferAllocation(),
        blocks.LowerOpaqueBlock(),
    ]
    return tvm.ir.transform.Sequential(passes)(module)


def primfuncs(seeds: range) -> Iterator[Any]:
    """Modules of one PrimFunc each, as the importer and the legaliser make them from generated models."""
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    seen = set()
    for seed in seeds:
        model = onnx.load_from_string(make_case(seed, 8).program)
        try:
            module = relax.transform.LegalizeOps()(from_onnx(model, keep_params_in_input=False))
        except Exception:
            continue  # what TVM cannot import is no concern of the tree
        for name, function in module.functions.items():
            if isinstance(function, tirx.PrimFunc) and tvm_ffi.structural_hash(function) not in seen:
                seen.add(tvm_ffi.structural_hash(function))
                yield tvm.IRModule({name: function})


@pytest.mark.parametrize(("seeds", "least"), [(8, 20), pytest.param(500, 800, marks=pytest.mark.slow)])
def test_what_the_importer_and_legaliser_make_is_read_and_built_again(seeds, least):
    count = 0
    for module in primfuncs(range(seeds)):
        assert_identity(module)
        assert_identity(lowered(module))
        assert_identity(tirx.transform.FlattenBuffer()(lowered(module)))
        count += 1
    assert count > least


REFUSED = {
    "scalable vector": tirx.Evaluate(T.Broadcast(T.float32(1), T.vscale() * 4)),
    "nothing defines": tirx.Evaluate(tirx.Var("x", "int32") + 1),
}


def test_what_the_tree_cannot_say_is_refused_by_name():
    for said, body in REFUSED.items():
        with pytest.raises(NotData, match=said):
            read_module(tvm.IRModule({"main": tirx.PrimFunc([], body)}))


def test_a_relax_function_is_no_primfunc():
    from tvm import relax

    build = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    with build.function("main", [x]):
        build.emit_func_output(x)
    with pytest.raises(NotData, match="no PrimFunc"):
        read_module(build.get())
