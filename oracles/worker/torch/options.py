"""Switches of inductor that a case may hold beside its program: `config.pattern_matcher=0`.

Python 3.8; torch is not needed to know them.
"""

from __future__ import annotations

from typing import Any, Iterable  # noqa: UP035 (Python 3.8)

_ON = """
    aggressive_fusion always_keep_tensor_constants b2b_gemm_pass conv_1x1_as_mm cpp.dynamic_threads
    cpp.enable_concat_linear decompose_mem_bound_mm efficient_conv_bn_eval_fx_passes emulate_precision_casts
    expand_dimension_for_pointwise_nodes force_layout_optimization force_shape_pad freezing group_fusion
    memory_planning permute_fusion
"""
_OFF = """
    allow_buffer_reuse batch_fusion comprehensive_padding constant_and_index_propagation
    cpp.enable_loop_tail_vec cpp.enable_tiling_heuristics cpp.fallback_scatter_reduce_sum epilogue_fusion
    inplace_buffers joint_graph_constant_folding keep_output_stride layout_optimization
    loop_ordering_after_fusion pattern_matcher reorder_for_locality reorder_for_peak_memory
    split_cat_fx_passes split_reductions
"""
OPTIONS: dict[str, tuple[str, ...]] = {
    **{f"config.{name}": ("1",) for name in _ON.split()},
    **{f"config.{name}": ("0",) for name in _OFF.split()},
    "config.cpp.max_horizontal_fusion_size": ("1",),
    "config.cpp.min_chunk_size": ("1",),
    "config.cpp.simdlen": ("1", "256"),
    "config.max_fusion_size": ("1", "4"),
    "config.max_pointwise_cat_inputs": ("0", "2"),
    "config.realize_acc_reads_threshold": ("1",),
    "config.realize_opcount_threshold": ("1",),
    "config.realize_reads_threshold": ("1",),
    "config.unroll_reductions_threshold": ("1", "64"),
    "decompositions": ("core_aten",),
}
"""Fields of `torch._inductor.config` with the values that they are drawn from, and the decompositions.

Those that change results by design are left out.
"""

_BOOLEANS = frozenset(f"config.{name}" for name in (_ON + _OFF).split())

DECOMPOSED = """\
from torch._inductor import compile_fx, decomposition
core_aten = torch._decomp.core_aten_decompositions().items()
more = {operator: how for operator, how in core_aten if "aten.clamp_m" not in str(operator)}
compile_fx.select_decomp_table = lambda: {**decomposition.select_decomp_table(), **more}
"""
"""The code that `decompositions=core_aten` stands for: operators that inductor lowers are taken apart too.

But for `clamp_min` and `clamp_max`: those become `clamp` again, which inductor takes apart into them.
"""


def code_of(members: Iterable[str]) -> tuple[str, ...]:
    """The statements of a script that set these."""
    members = tuple(members)
    lines = [f"torch._inductor.config.{name} = {value!r}" for name, value in patches_of(members).items()]
    decomposed = DECOMPOSED.splitlines() if any(not name.startswith("config.") for name in members) else []
    return (*lines, *decomposed)


def patches_of(members: Iterable[str]) -> dict[str, Any]:
    """What `torch._inductor.config.patch` takes for these members, but for the decompositions."""
    found: dict[str, Any] = {}
    for name, _, value in (member.partition("=") for member in members):
        if name.startswith("config."):
            found[name[len("config.") :]] = value != "0" if name in _BOOLEANS else int(value)
    return found
