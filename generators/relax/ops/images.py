"""Images: resizing and grids."""

from __future__ import annotations

from generators.relax.operator import Asking, Call, Operator, Want, shape_literal
from generators.relax.ops.windows import SPACE, fits
from generators.relax.types import Json, Tensor


def _resize(rank: int) -> Operator:
    def solve(asking: Asking, target: Tensor) -> Call:
        draws = asking.draws
        taken = [asking.amount((1, 2, 3, 4, 5), 16) for _ in range(rank)]
        method = draws.pick(["linear", "nearest_neighbor"])
        mode = draws.pick(["half_pixel", "asymmetric", "align_corners"])
        if method == "nearest_neighbor":
            mode = "asymmetric"
        told: dict[str, Json] = {
            "roi": [{"prim": ["float32", 0.0]}] * (2 * rank),
            "layout": f"NC{SPACE[rank]}",
            "method": method,
            "coordinate_transformation_mode": mode,
            "rounding_method": "floor" if method == "nearest_neighbor" else "",
            "cubic_alpha": -0.75,
            "cubic_exclude": 0,
            "extrapolation_value": 0.0,
            "out_dtype": None,
        }
        source = Tensor(target.dtype, (*target.shape[:2], *taken))
        return Call((Want(source), shape_literal(target.shape[2:])), target, (f"Resize{rank}DAttrs", told))

    return Operator(f"relax.image.resize{rank}d", fits(rank), solve, ranks=(rank + 2,) * 2)


def _affine_grid(asking: Asking, target: Tensor) -> Call:
    theta = Tensor(target.dtype, (target.shape[0], 2, 3))
    told = {"align_corners": True}
    return Call((Want(theta), shape_literal(target.shape[2:])), target, ("AffineGridAttrs", told))


def _is_grid(told: Tensor) -> bool:
    return fits(2, least=2)(told) and told.shape[1] == 2


OPERATORS = (
    _resize(2),
    _resize(3),
    Operator("relax.image.affine_grid", _is_grid, _affine_grid, ranks=(4, 4), weight=0.5),
)
