"""Ensembles of trees of `ai.onnx.ml`: those of its fifth version, and regressors and classifiers before it.

A tree is drawn once, as nodes in preorder, and written in either form. Every leaf has a weight for each
target, or for some; where the least or the greatest leaf counts, no target goes without.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from oracles.operators.ml_linear import (
    FEATURES,
    LABELS,
    MOST_CLASSES,
    bound_labels,
    class_count,
    drawn_transform,
    eighths,
    infer_labels,
    is_table,
    label_dtype,
    labels_of,
    ml_model,
    transformed,
)
from oracles.relation.arithmetic import add, hull, symmetric
from oracles.relation.program import Attribute, Call, Operand, RandomSource, Scope
from oracles.relation.types import F32, F64, NUMPY, TRUTH, DType, Range, TensorType

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_MEMBER = len(_MODES)
"""The mode of a node that asks for one of several values; only the later form has it."""
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_NUMBERED = {1: (1,), 2: (0, 1)}
"""The labels of few classes: onnxruntime answers 0 or 1 for them."""


class _Node(NamedTuple):
    """A comparison of a feature with a split, or with members, and its branches; a leaf has no mode."""

    mode: int | None
    feature: int = 0
    members: tuple[float, ...] = (0.0,)
    yes: int = 0
    no: int = 0


_Tree = tuple[_Node, ...]


def _trees(scope: Scope, features: int, count: int, modes: int) -> tuple[_Tree, ...]:
    """Trees of one mode or of several; a tree may be a single leaf."""
    draws = scope.draws
    allowed = (draws.below(modes),) if draws.chance(0.4) else tuple(range(modes))
    found = []
    for _ in range(count):
        nodes: list[_Node] = []
        _grow(nodes, draws, features, allowed, draws.pick((0, 1, 2, 2, 3, 4)))
        found.append(tuple(nodes))
    return tuple(found)


def _grow(nodes: list[_Node], draws: RandomSource, features: int, modes: tuple[int, ...], depth: int) -> int:
    """Append a subtree of at most this depth, and give the place of its root."""
    at = len(nodes)
    nodes.append(_Node(None))
    if depth and not (at and draws.chance(0.2)):
        mode, feature = draws.pick(modes), draws.below(features)
        members = _members(draws) if mode == _MEMBER else (_split(draws),)
        yes = _grow(nodes, draws, features, modes, depth - 1)
        no = _grow(nodes, draws, features, modes, depth - 1)
        nodes[at] = _Node(mode, feature, members, yes, no)
    return at


def _split(draws: RandomSource) -> float:
    """A number at which values that are drawn often lie."""
    return draws.between(-8, 8) / 4 if draws.chance(0.6) else float(draws.between(-4, 40))


def _members(draws: RandomSource) -> tuple[float, ...]:
    """Whole numbers, which are all that onnxruntime takes."""
    return tuple(float(draws.between(-2, 36)) for _ in range(draws.between(1, 4)))


def _leaves(tree: _Tree) -> Iterator[int]:
    return (at for at, node in enumerate(tree) if node.mode is None)


def _some_weights(scope: Scope, count: int, transform: str, trees: int) -> tuple[float, ...]:
    """Weights whose sum over all trees is a probability where a probit follows."""
    weights = eighths(scope, count)
    return tuple((each + 1.125) / 2.25 / trees for each in weights) if transform == "PROBIT" else weights


def _numbers(dtype: DType, name: str, values: tuple[float, ...]) -> dict[str, Attribute]:
    """A list of floats; a tensor for features of double precision."""
    return {f"{name}_as_tensor": np.array(values)} if dtype is F64 else {name: values}


def _older_nodes(scope: Scope, trees: tuple[_Tree, ...], dtype: DType) -> dict[str, Attribute]:
    """The attributes of all nodes of the older form."""
    nodes = [node for tree in trees for node in tree]
    given: dict[str, Attribute] = {
        "nodes_treeids": tuple(index for index, tree in enumerate(trees) for _ in tree),
        "nodes_nodeids": tuple(at for tree in trees for at in range(len(tree))),
        "nodes_featureids": tuple(node.feature for node in nodes),
        "nodes_modes": tuple("LEAF" if node.mode is None else _MODES[node.mode] for node in nodes),
        "nodes_truenodeids": tuple(node.yes for node in nodes),
        "nodes_falsenodeids": tuple(node.no for node in nodes),
        **_numbers(dtype, "nodes_values", tuple(node.members[0] for node in nodes)),
    }
    if scope.draws.chance(0.4):
        given["nodes_missing_value_tracks_true"] = tuple(scope.draws.below(2) for _ in nodes)
    if scope.draws.chance(0.2):
        given |= _numbers(dtype, "nodes_hitrates", (1.0,) * len(nodes))
    return given


def _votes(
    scope: Scope, trees: tuple[_Tree, ...], targets: tuple[int, ...], every: bool
) -> list[tuple[int, int, int]]:
    """The tree, the leaf and the target of each weight; each leaf has some, or one for every target."""
    draws = scope.draws
    return [
        (index, at, target)
        for index, tree in enumerate(trees)
        for at in _leaves(tree)
        for target in (targets if every else sorted(draws.sample(targets, draws.between(1, len(targets)))))
    ]


def _older_leaves(
    scope: Scope, dtype: DType, name: str, votes: list[tuple[int, int, int]], transform: str, trees: int
) -> dict[str, Attribute]:
    """The attributes of all leaves of the older form."""
    weights = _some_weights(scope, len(votes), transform, trees)
    return {
        f"{name}_treeids": tuple(tree for tree, _, _ in votes),
        f"{name}_nodeids": tuple(at for _, at, _ in votes),
        f"{name}_ids": tuple(target for _, _, target in votes),
        **_numbers(dtype, f"{name}_weights", weights),
        "post_transform": transform,
    }


def _either(call: Call, name: str) -> tuple[float, ...]:
    return call.floats_of(name) or call.floats_of(f"{name}_as_tensor")


def _summed(weights: tuple[float, ...], trees: int) -> Range:
    """What trees can sum up to, or average; no target is without a vote where all votes are above zero."""
    low, high = min(weights), max(weights)
    return Range(low / trees if low > 0 else trees * low, trees * max(0.0, high))


def _older_scores(call: Call, name: str) -> Range:
    trees = len(set(call.tuple_of("nodes_treeids", ())))
    scores = _summed(_either(call, f"{name}_weights"), trees)
    base = _either(call, "base_values")
    return add(scores, Range(min(0.0, *base), max(0.0, *base))) if base else scores


def _sample_regressor(scope: Scope, focus: Operand) -> Call | None:
    if not is_table(focus):
        return None
    targets = scope.draws.pick((1, 1, 2, 3))
    draws, transform = scope.draws, drawn_transform(scope)
    trees = _trees(scope, focus.shape[1], draws.between(1, 4), _MEMBER)
    aggregate = draws.pick(_AGGREGATES)
    every = aggregate in ("MIN", "MAX") or transform == "PROBIT" or draws.chance(0.5)
    votes = _votes(scope, trees, tuple(range(targets)), every)
    given = {
        **_older_nodes(scope, trees, focus.dtype),
        **_older_leaves(scope, focus.dtype, "target", votes, transform, len(trees)),
        "n_targets": targets,
    }
    if aggregate != "SUM" or draws.chance(0.5):
        given["aggregate_function"] = aggregate
    if transform != "PROBIT" and draws.chance(0.4):
        given |= _numbers(focus.dtype, "base_values", eighths(scope, targets, 2.0))
    return Call((focus,), given)


def _infer_regressor(call: Call) -> tuple[TensorType, ...]:
    return (TensorType(F32, (call.operand(0).shape[0], call.integer("n_targets", 1))),)


def _bound_regressor(call: Call) -> tuple[Range, ...]:
    return (transformed(_older_scores(call, "target"), call.text_of("post_transform", "NONE")),)


def _sample_classifier(scope: Scope, focus: Operand) -> Call | None:
    """Of two classes one alone may have weights; a class that is alone is there or not."""
    if not is_table(focus):
        return None
    labels = label_dtype(scope)
    draws, transform = scope.draws, drawn_transform(scope)
    trees = _trees(scope, focus.shape[1], draws.between(1, 4), _MEMBER)
    count = 1 if draws.chance(0.06) else draws.between(2, MOST_CLASSES)
    voted = (draws.below(2),) if count == 2 and draws.chance(0.4) else tuple(range(count))
    votes = _votes(scope, trees, voted, transform == "PROBIT" or draws.chance(0.5))
    given = {
        **_older_nodes(scope, trees, focus.dtype),
        **_older_leaves(scope, focus.dtype, "class", votes, transform, len(trees)),
        **labels_of(scope, count, labels, "classlabels_int64s", _NUMBERED.get(count, LABELS)),
    }
    if transform != "PROBIT" and draws.chance(0.3):
        given |= _numbers(focus.dtype, "base_values", eighths(scope, count, 2.0))
    return Call((focus,), given, 2)


def _infer_classifier(call: Call) -> tuple[TensorType, ...]:
    return infer_labels(call, class_count(call, "classlabels_int64s"))


def _bound_classifier(call: Call) -> tuple[Range, ...]:
    """Of two classes the first may have what the second leaves, or the opposite."""
    scores, transform = _older_scores(call, "class"), call.text_of("post_transform", "NONE")
    count, labels = class_count(call, "classlabels_int64s"), bound_labels(call, "classlabels_int64s")
    if count <= 2 and transform != "PROBIT":
        scores = hull((scores, symmetric(scores.magnitude + 1)))
    return hull((labels, TRUTH)) if count <= 2 else labels, transformed(scores, transform)


def _sample_ensemble(scope: Scope, focus: Operand) -> Call | None:
    """Where the least or the greatest leaf counts, each target has trees of its own."""
    if not is_table(focus):
        return None
    targets = scope.draws.pick((1, 1, 2, 3))
    draws, transform = scope.draws, drawn_transform(scope)
    aggregate = draws.below(len(_AGGREGATES))
    count = targets * draws.between(1, 2)
    trees = _trees(scope, focus.shape[1], count, _MEMBER + 1)
    own = _AGGREGATES[aggregate] in ("MIN", "MAX") or transform == "PROBIT" or draws.chance(0.3)
    owners = [
        index % targets if own else draws.below(targets)
        for index, tree in enumerate(trees)
        for _ in _leaves(tree)
    ]
    weights = _some_weights(scope, len(owners), transform, count)
    given = {
        **_newer_nodes(scope, trees, focus.dtype),
        "leaf_targetids": tuple(owners),
        "leaf_weights": np.array(weights, NUMPY[focus.dtype]),
        "n_targets": targets,
    }
    if aggregate != 1 or draws.chance(0.5):
        given["aggregate_function"] = aggregate
    if transform != "NONE" or draws.chance(0.5):
        given["post_transform"] = _TRANSFORMS.index(transform)
    return Call((focus,), given)


class _Rows(NamedTuple):
    """A node of the newer form, in which a tree that is a leaf has a node with twice the same leaf."""

    node: _Node
    yes: int
    no: int
    yes_leaf: int
    no_leaf: int


def _newer_rows(tree: _Tree, nodes_before: int, leaves_before: int) -> list[_Rows]:
    places: dict[int, int] = {}
    for at, node in enumerate(tree):
        is_leaf = node.mode is None
        same_kind = sum((tree[other].mode is None) == is_leaf for other in range(at))
        places[at] = same_kind + (leaves_before if is_leaf else nodes_before)
    if len(tree) == 1:
        return [_Rows(_Node(0), places[0], places[0], 1, 1)]
    return [
        _Rows(
            node,
            places[node.yes],
            places[node.no],
            *(int(tree[at].mode is None) for at in (node.yes, node.no)),
        )
        for node in tree
        if node.mode is not None
    ]


def _newer_nodes(scope: Scope, trees: tuple[_Tree, ...], dtype: DType) -> dict[str, Attribute]:
    """The attributes of all nodes of the newer form."""
    rows: list[_Rows] = []
    roots, leaves = [], 0
    for tree in trees:
        roots.append(len(rows))
        rows += _newer_rows(tree, len(rows), leaves)
        leaves += len(list(_leaves(tree)))
    kind = NUMPY[dtype]
    given: dict[str, Attribute] = {
        "tree_roots": tuple(roots),
        "nodes_featureids": tuple(row.node.feature for row in rows),
        "nodes_modes": np.array([row.node.mode for row in rows], np.uint8),
        "nodes_splits": np.array([row.node.members[0] for row in rows], kind),
        "nodes_truenodeids": tuple(row.yes for row in rows),
        "nodes_falsenodeids": tuple(row.no for row in rows),
        "nodes_trueleafs": tuple(row.yes_leaf for row in rows),
        "nodes_falseleafs": tuple(row.no_leaf for row in rows),
    }
    if members := _all_members(rows):
        given["membership_values"] = np.array(members, kind)
    if scope.draws.chance(0.4):
        given["nodes_missing_value_tracks_true"] = tuple(scope.draws.below(2) for _ in rows)
    return given


def _all_members(rows: list[_Rows]) -> list[float]:
    """The members of each set, with NaN behind each."""
    return [each for row in rows if row.node.mode == _MEMBER for each in (*row.node.members, np.nan)]


def _infer_ensemble(call: Call) -> tuple[TensorType, ...]:
    focus = call.operand(0)
    return (TensorType(focus.dtype, (focus.shape[0], call.integer("n_targets", 1))),)


def _bound_ensemble(call: Call) -> tuple[Range, ...]:
    transform = _TRANSFORMS[call.integer("post_transform", 0)]
    scores = _summed(call.floats_of("leaf_weights"), len(call.tuple_of("tree_roots", ())))
    return (transformed(scores, transform),)


OPERATORS = (
    replace(ml_model("TreeEnsembleRegressor", F32, F64), until=20).by(
        _sample_regressor, _infer_regressor, _bound_regressor, None
    ),
    replace(ml_model("TreeEnsembleClassifier", *FEATURES), until=20).by(
        _sample_classifier, _infer_classifier, _bound_classifier, None
    ),
    replace(ml_model("TreeEnsemble", F32, F64), since=21).by(
        _sample_ensemble, _infer_ensemble, _bound_ensemble, None
    ),
)
