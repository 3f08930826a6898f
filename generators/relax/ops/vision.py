"""Regions of images, boxes and scores: what detectors are made of."""

import numpy as np

from generators.relax.operator import (
    ANY,
    Asking,
    Call,
    Fields,
    Given,
    Json,
    Likely,
    Operator,
    Recogniser,
    Solver,
    Tensor,
    Want,
    Within,
    all_of,
    is_filled,
    of,
    ranked,
    shape_literal,
)
from generators.relax.ops.windows import SPACE, fits

_BEYOND = Within(-1.4, 1.4)
_HALF = Within(-2.0, 2.0)


_is_image = all_of(fits(2), is_filled)


def _grid_sample(asking: Asking, target: Tensor) -> Call:
    """Nearest elements are looked up by constants, a quarter of a step away from where two are as near."""
    draws = asking.draws
    batch, channels, *space = (int(dim) for dim in target.shape)
    height, width = (draws.between(2, 5) for _ in range(2))
    told = {
        "method": draws.pick(["bilinear", "bilinear", "nearest"]),
        "layout": "NCHW",
        "padding_mode": draws.pick(["zeros", "border", "reflection"]),
        "align_corners": draws.chance(0.5),
    }
    grid: Given | Want = Want(target.shaped(batch, 2, *space), _BEYOND)
    if told["method"] == "nearest":
        sizes = np.array([width, height]).reshape(2, 1, 1)
        count = batch * 2 * space[0] * space[1]
        share = np.array([draws.random() for _ in range(count)]).reshape(batch, 2, *space)
        places = np.floor(share * sizes) + 0.25
        scaled = 2 * places / (sizes - 1) - 1 if told["align_corners"] else (2 * places + 1) / sizes - 1
        grid = Given(np.clip(scaled, -1, 1).astype(target.dtype))
    source = Want(target.shaped(batch, channels, height, width))
    return Call((source, grid), target, ("GridSampleAttrs", told))


def _regions(asking: Asking, count: int, batches: int, sizes: tuple[int, int], step: float) -> Given:
    """Return regions within an image, corners in steps; each is longer than nothing."""
    rows = []
    for _ in range(count):
        height, width = sizes
        left, top = (asking.draws.below(int(size / step)) * step for size in (width, height))
        right = min(left + step * asking.draws.between(1, 4), width)
        bottom = min(top + step * asking.draws.between(1, 4), height)
        rows.append([asking.draws.below(batches), left, top, right, bottom])
    return Given(np.array(rows, "float32").reshape(count, 5))


def _roi_align(asking: Asking, target: Tensor) -> Call:
    draws = asking.draws
    layout = "NHWC" if draws.chance(0.3) else "NCHW"
    count = int(target.shape[0])
    pooled = [int(target.shape[layout.index(letter)]) for letter in "HW"]
    channels, batches = target.shape[layout.index("C")], draws.between(1, 2)
    height, width = (draws.between(2, 6) for _ in range(2))
    scale = draws.pick([1.0, 0.5])
    told: dict[str, Json] = {
        "pooled_size": pooled,
        "spatial_scale": scale,
        "sample_ratio": draws.pick([-1, 1, 2]),
        "aligned": draws.chance(0.4),
        "layout": layout,
        "mode": draws.pick(["avg", "avg", "max"]),
    }
    dims = {"N": batches, "C": channels, "H": height, "W": width}
    source = Want(target.shaped(*tuple(dims[letter] for letter in layout)))
    sizes = int(height / scale), int(width / scale)
    return Call((source, _regions(asking, count, batches, sizes, 0.5)), target, ("ROIAlignAttrs", told))


def _roi_pool(asking: Asking, target: Tensor) -> Call:
    draws = asking.draws
    count, channels, *pooled = (int(dim) for dim in target.shape)
    batches, height, width = draws.between(1, 2), draws.between(2, 6), draws.between(2, 6)
    scale = draws.pick([1.0, 0.5])
    told: dict[str, Json] = {"pooled_size": pooled, "spatial_scale": scale, "layout": "NCHW"}
    source = Want(target.shaped(batches, channels, height, width))
    sizes = int(height / scale), int(width / scale)
    return Call((source, _regions(asking, count, batches, sizes, 1.0)), target, ("ROIPoolAttrs", told))


def _is_boxes(told: Tensor) -> bool:
    has_room = told.rank == 3 and told.dtype == "float32" and int(told.shape[-1]) >= 2
    is_place = told.rank in (1, 2) and told.dtype == "int32"
    return has_room or is_place


def _valid_counts(asking: Asking, target: Tensor) -> Call:
    """The counts, the boxes or their places are wanted, by the target's rank."""
    count = int(target.shape[1]) if target.rank > 1 else asking.draws.between(1, 4)
    length = int(target.shape[2]) if target.rank > 2 else asking.draws.between(2, 6)
    batch = target.shape[0]
    score = asking.draws.below(length)
    told = {
        "score_threshold": asking.draws.pick([0.0, 0.5]),
        "id_index": asking.draws.pick([-1, *(at for at in range(length) if at != score)]),
        "score_index": score,
    }
    boxes = Tensor("float32", (batch, count, length))
    result = Fields((Tensor("int32", (batch,)), boxes, Tensor("int32", (batch, count))))
    at = {1: 0, 2: 2, 3: 1}[target.rank]
    return Call((Want(boxes, _HALF),), result, ("GetValidCountsAttrs", told), at=at)


def _is_suppressed(told: Tensor) -> bool:
    is_box = told.rank == 3 and told.dtype == "float32" and told.shape[2] in (5, 6)
    return is_box or (told.rank == 2 and told.dtype == "int32")


def _suppression(asking: Asking, target: Tensor) -> Call:
    """The rows of boxes, or which they are, or how many, are wanted; corners are whole, scores differ.

    A box is a score and four corners, with a class before them where there is room.
    """
    draws, shape = asking.draws, tuple(int(dim) for dim in target.shape)
    has_indices = target.rank == 2
    is_count = has_indices and shape[1] == 1 and draws.chance(0.7)
    batch, count = shape[0], draws.between(1, 6) if is_count else shape[1]
    length = draws.pick([5, 6]) if has_indices else shape[2]
    rows = [
        [*(draws.below(2) for _ in range(length - 5)), (score - 1) / 8, *(draws.below(5) for _ in range(4))]
        for _ in range(batch)
        for score in draws.sample(range(count + 2), count)
    ]
    boxes = np.array(rows, "float32").reshape(batch, count, length)
    told: dict[str, Json] = {
        "max_output_size": draws.pick([-1, -1, 1, 2]),
        "iou_threshold": draws.pick([0.11, 0.26, 0.51]),
        "force_suppress": draws.chance(0.3),
        "top_k": draws.pick([-1, -1, 2, 3]),
        "coord_start": length - 4,
        "score_index": length - 5,
        "id_index": draws.pick([-1, 0]) if length == 6 else -1,
        "return_indices": has_indices,
        "invalid_to_bottom": draws.chance(0.5),
        "soft_nms_sigma": 0.0,
        "score_threshold": 0.0,
    }
    counts, names = Tensor("int32", (batch,)), Tensor("int32", (batch, count))
    args = Given(boxes), Want(counts, Within(0, count)), Want(names, Within(0, 9))
    kind = "NonMaximumSuppressionAttrs"
    if not has_indices:
        return Call(args, target, (kind, told))
    return Call(args, Fields((names, Tensor("int32", (batch, 1)))), (kind, told), at=int(is_count))


def _is_listed(told: Tensor) -> bool:
    is_scores = told.rank == 2 and told.dtype == "float32"
    is_pairs = told.rank == 3 and told.dtype == "int64" and told.shape[2] == 2
    return is_scores or is_pairs or (told.rank == 1 and told.dtype == "int64")


def _suppression_by_class(asking: Asking, target: Tensor) -> Call:
    """Which boxes are kept of each class, their scores, or how many, are wanted: by the target's rank."""
    draws, shape = asking.draws, tuple(int(dim) for dim in target.shape)
    batch, listed = shape[0], shape[1] if target.rank > 1 else draws.between(1, 3) * draws.between(1, 4)
    classes = draws.pick([each for each in range(1, listed + 1) if listed % each == 0])
    count = listed // classes
    drawn = [draws.sample(range(count + 2), count) for _ in range(batch * classes)]
    scores = Given((np.array(drawn, "float32") / 8).reshape(batch, classes, count))
    limits = (
        Given(np.array(draws.between(1, 3), "int64")),
        Given(np.array(draws.pick([0.11, 0.26, 0.51]), "float32")),
        Given(np.array(draws.pick([0.0, 0.3]), "float32")),
    )
    corners = Want(Tensor("float32", (batch, count, 4)), Within(0.0, 4.0))
    pairs, kept = Tensor("int64", (batch, listed, 2)), Tensor("float32", (batch, listed))
    result = Fields((pairs, kept, Tensor("int64", (batch,))))
    told = {"output_format": "tensorflow"}  # for ONNX's form TVM infers more rows than come
    kind = "AllClassNonMaximumSuppressionAttrs"
    at = {1: 2, 2: 1, 3: 0}[target.rank]
    return Call((corners, scores, *limits), result, (kind, told), at=at)


def _decoded(asking: Asking, target: Tensor) -> Call:
    """The boxes are wanted where the last dim is 4, else the scores."""
    draws = asking.draws
    is_boxes = target.shape[2] == 4 and draws.chance(0.7)
    batch = int(target.shape[0])
    count = int(target.shape[1 if is_boxes else 2])
    classes = draws.between(1, 4) if is_boxes else int(target.shape[1])
    told = {
        "clip": draws.chance(0.3),
        "threshold": 0.0,
        "variances": [draws.pick([0.125, 0.25, 1.0]) for _ in range(4)],
        "keep_background": draws.chance(0.6),
        "apply_softmax": draws.chance(0.6),
    }
    boxes, scores = (Tensor("float32", shape) for shape in ((batch, count, 4), (batch, classes, count)))
    wants = (
        Want(scores, Within(0.0, 4.0)),
        Want(Tensor("float32", (batch, 4 * count)), _HALF),
        Want(Tensor("float32", (1, count, 4)), ANY),
    )
    kind = "MultiboxTransformLocAttrs"
    return Call(wants, Fields((boxes, scores)), (kind, told), at=0 if is_boxes else 1)


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
        source = target.shaped(*target.shape[:2], *taken)
        return Call((Want(source), shape_literal(target.shape[2:])), target, (f"Resize{rank}DAttrs", told))

    return Operator(f"relax.image.resize{rank}d", fits(rank), solve, ranks=(rank + 2,) * 2)


def _affine_grid(asking: Asking, target: Tensor) -> Call:
    theta = target.shaped(target.shape[0], 2, 3)
    told = {"align_corners": True}
    return Call((Want(theta), shape_literal(target.shape[2:])), target, ("AffineGridAttrs", told))


def _of_boxes(name: str, recognise: Recogniser, solve: Solver, ranks: tuple[int, int]) -> Operator:
    """An operator whose target may be any of its results, by the target's rank."""
    takes = all_of(is_filled, recognise)
    return Operator(f"relax.vision.{name}", takes, solve, Likely.NUMBER, ranks, weight=0.5)


OPERATORS = (
    Operator("relax.image.grid_sample", _is_image, _grid_sample, ranks=(4, 4), weight=0.7),
    Operator("relax.vision.roi_align", _is_image, _roi_align, ranks=(4, 4), weight=0.7),
    Operator("relax.vision.roi_pool", _is_image, _roi_pool, ranks=(4, 4), weight=0.7),
    _of_boxes("get_valid_counts", _is_boxes, _valid_counts, (1, 3)),
    _of_boxes("non_max_suppression", _is_suppressed, _suppression, (2, 3)),
    _of_boxes("all_class_non_max_suppression", _is_listed, _suppression_by_class, (1, 3)),
    Operator(
        "relax.vision.multibox_transform_loc",
        all_of(is_filled, ranked(3, 3), of("float32")),
        _decoded,
        ranks=(3, 3),
        weight=0.3,
    ),
    _resize(2),
    _resize(3),
    Operator(
        "relax.image.affine_grid",
        all_of(fits(2, least=2), lambda told: told.shape[1] == 2),
        _affine_grid,
        ranks=(4, 4),
        weight=0.5,
    ),
)
