"""Options of TVM's pass context that a sequence of passes may hold: `tirx.UnrollLoop.auto_max_step=16`.

An option holds for the whole compilation, wherever it stands. Names are those of the context's configuration;
after the last dot comes a field where the option has fields.
"""

from typing import Any, Dict, Iterable, Tuple  # noqa: UP035 (Python 3.8)

OPTIONS: Dict[str, Tuple[int, ...]] = {  # noqa: UP006 (Python 3.8)
    "tirx.UnrollLoop.auto_max_step": (0, 4, 16, 64),
    "tirx.UnrollLoop.auto_max_depth": (0, 1, 8),
    "tirx.UnrollLoop.auto_max_extent": (0, 2, 8),
    "tirx.UnrollLoop.explicit_unroll": (0, 1),
    "tirx.UnrollLoop.unroll_local_access": (1,),
    "tirx.RemoveNoOp.max_simplification_steps": (0, 10),
    "tirx.StmtSimplify.transitively_prove_inequalities": (1,),
    "tirx.StmtSimplify.convert_boolean_to_and_of_ors": (1,),
    "tirx.StmtSimplify.apply_constraints_to_boolean_branches": (1,),
    "s_tir.LoopPartition.partition_const_loop": (1,),
    "s_tir.LoopPartition.no_unroll_loop_with_extent_one": (1,),
    "s_tir.LoopPartition.unroll_loop_with_partition_hint_no_interval": (1,),
    "s_tir.HoistIfThenElse.support_block_scope_hoisting": (1,),
    "s_tir.HoistExpression.hoisted_conditionals": (0, 1, 7, 31),
    "s_tir.HoistExpression.hoisted_let_bindings": (0, 1, 7),
    "s_tir.InjectDoubleBuffer.split_loop": (1, 2),
    "tirx.disable_vectorize": (1,),
    "tirx.disable_storage_rewrite": (1,),
    "tirx.disable_cse_tir": (1,),
    "tirx.debug_keep_trivial_loop": (1,),
    "tirx.instrument_bound_checkers": (1,),
    "tirx.enable_buffer_level_predication": (1,),
    "tirx.noalias": (0,),
    "tirx.disable_assert": (1,),
    "tirx.merge_static_smem": (1,),
}
"""The values that each is drawn from; those that change results by design are left out."""

_NUMBERS = ("auto_max", "max_simplification", "hoisted_", "split_loop")


def is_option(name: str) -> bool:
    """Whether a member of a sequence is an option and no pass."""
    return "=" in name


def complaint(name: str) -> str:
    """Say why there is no such option; empty if there is one."""
    key, _, value = name.partition("=")
    if key not in OPTIONS:
        return f"there is no option {key}"
    return "" if value.isdigit() and len(value) < 8 else f"option {key} takes a number, not {value!r}"


def config_of(names: Iterable[str]) -> dict[str, Any]:
    """The configuration of a pass context that the options among these make; the last of a name counts."""
    found: dict[str, Any] = {}
    for name in filter(is_option, names):
        key, _, value = name.partition("=")
        group, _, field = key.rpartition(".")
        number: int | bool = int(value) if field.startswith(_NUMBERS) else value != "0"
        if group in ("tirx", "s_tir"):
            found[key] = number
        else:
            found.setdefault(group, {})[field] = number
    return found
