"""The operator sets that a model imports: those that are used, in the least version that means the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias, TypeVar

import onnx
from onnx import FunctionProto, ModelProto, NodeProto

from corpus.onnx.graph import function_key, walk_function, walk_model
from reducer.subject.onnx.view import OnnxView

OLDEST = 7
"""The oldest operator set of ONNX's own that runtimes promise to run."""

STANDARD = ("", "ai.onnx")
"""The two names of ONNX's own domain."""

Holder: TypeAlias = ModelProto | FunctionProto

S = TypeVar("S", bound=OnnxView)


def drop_unused_sets(model: ModelProto) -> None:
    """Drop unused opsets in place. ONNX's own stays: without it a runtime assumes the newest version."""
    for holder in (model, *model.functions):
        used = {*STANDARD, *(node.domain for node in _nodes(holder))}
        for at in reversed(range(len(holder.opset_import))):
            if holder.opset_import[at].domain not in used:
                del holder.opset_import[at]


def rename_sets(model: ModelProto, instead: Mapping[str, str]) -> None:
    """Import new domains wherever nodes use them, in the versions of the old ones; in place."""
    for holder in (model, *model.functions):
        versions = {item.domain: item.version for item in holder.opset_import}
        used = {node.domain for node in _nodes(holder)}
        for old, new in instead.items():
            if new in used and new not in versions:
                holder.opset_import.add(domain=new, version=versions.get(old, 1))
    drop_unused_sets(model)


def sum_of_versions(model: ModelProto) -> int:
    """Add up the versions of the imported opsets; of two models with equal sums neither is plainer."""
    return sum(item.version for holder in (model, *model.functions) for item in holder.opset_import)


def least_versions(model: ModelProto) -> dict[str, int]:
    """Map each domain to the least version in which all used operators have their present schema.

    Functions and the model that calls them agree on it. A domain with an operator that onnx does not know is
    left out, but for one that holds nothing but the model's own functions.
    """
    found: dict[str, int] = {}
    unknown: set[str] = set()
    functions = {function_key(each) for each in model.functions}
    for holder in (model, *model.functions):
        for item in holder.opset_import:
            least = _least(item, _nodes(holder), functions)
            if least is None:
                unknown.add(item.domain)
            else:
                found[item.domain] = max(least, found.get(item.domain, 1))
    return {domain: version for domain, version in found.items() if domain not in unknown}


def _least(
    item: onnx.OperatorSetIdProto, nodes: Iterable[NodeProto], functions: set[tuple[str, str, str]]
) -> int | None:
    """The version from which on all these nodes mean what they mean; None where onnx does not know one."""
    own = [node for node in nodes if node.domain == item.domain]
    operators = {node.op_type for node in own if function_key(node) not in functions}
    if not own and item.domain not in STANDARD:
        return None
    try:
        since = [onnx.defs.get_schema(name, item.version, item.domain).since_version for name in operators]
    except onnx.defs.SchemaError:
        return None
    return max([OLDEST if item.domain in STANDARD else 1, *since])


def lowered(subject: S, versions: Mapping[str, int] | None = None) -> S:
    """The subject without unused operator sets, the others in these versions or the least ones.

    The very object where it has them.
    """
    if versions is None and not _has_more(subject.model):
        return subject
    model = ModelProto()
    model.CopyFrom(subject.model)
    drop_unused_sets(model)
    least = least_versions(model) if versions is None else versions
    for holder in (model, *model.functions):
        for item in holder.opset_import:
            item.version = min(item.version, least.get(item.domain, item.version))
    return replace(subject, model=model)


def _has_more(model: ModelProto) -> bool:
    """Whether an import is not used or newer than it must be."""
    least = least_versions(model)
    used = {*STANDARD, *(node.domain for node in walk_model(model))}
    imports = [item for holder in (model, *model.functions) for item in holder.opset_import]
    return any(
        item.domain not in used or item.version > least.get(item.domain, item.version) for item in imports
    )


def _nodes(holder: Holder) -> Iterator[NodeProto]:
    """The nodes that an import is for: a model's is for those of its functions too."""
    return walk_model(holder) if isinstance(holder, ModelProto) else walk_function(holder)
