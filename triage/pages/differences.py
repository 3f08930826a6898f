"""What two cases differ in: operators, attributes, types, weights, inputs, settings; in words and pictures.

Names of values say nothing: nodes are brought together by their operators, in order.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from itertools import zip_longest
from pathlib import Path
from typing import Any

import onnx

from corpus.case import Case
from corpus.formats import find_format
from corpus.onnx.canonical import op_name
from corpus.onnx.graph import subgraphs, walk_graphs
from corpus.onnx.text import attribute_text, tensor_text, type_text
from corpus.onnx.types import inferred_types
from corpus.outputs import put
from corpus.reading import write_fresh
from reducer.result import BLANK, all_nodes, read_result
from reducer.result import NAME as REDUCTION
from triage.language import language_of, list_case
from triage.views.charts import curve
from triage.views.graph_picture import Shown, drawn, kept_picture, small_picture
from triage.views.listing import describe_value, describe_values
from triage.views.rendering import hash_of, render

MOST_WORDS = 200


@dataclass(frozen=True, slots=True)
class Described:
    """A node without names; `place` is its index in the main graph, None inside a body."""

    op: str
    attributes: Mapping[str, str]
    types: tuple[str, ...]
    place: int | None


def describe_differences(one: Case, other: Case) -> dict[str, Any]:
    """The differences of two cases as plain data, `words` being all of them for a person."""
    words = [*_settings(one, other), *_inputs(one, other)]
    only: tuple[dict[str, int], dict[str, int]] = ({}, {})
    if _are_models(one, other):
        first, second = _nodes(one), _nodes(other)
        counts = [Counter(node.op for node in each) for each in (first, second)]
        only = dict(counts[0] - counts[1]), dict(counts[1] - counts[0])
        words += [*_opsets(one, other), *_nodes_apart(first, second), *_weights(one, other)]
    elif one.program != other.program:
        words += _lines(one, other)
    return {
        "same_case": one.case_id == other.case_id,
        "same_but_for_names": one.canonical_hash == other.canonical_hash,
        "only_a": only[0],
        "only_b": only[1],
        "words": words[:MOST_WORDS],
        "more": max(0, len(words) - MOST_WORDS),
    }


def _are_models(one: Case, other: Case) -> bool:
    return language_of(one.format).has_model and language_of(other.format).has_model


def draw_differences(one: Case, other: Case, folder: Path) -> list[str]:
    """`a.svg` and `b.svg`, the nodes that the other one lacks or has otherwise marked; their paths."""
    if not _are_models(one, other):
        return []
    marked = _marked(_nodes(one), _nodes(other))
    paths = []
    for name, case, places in zip(("a", "b"), (one, other), marked, strict=True):
        shown = kept_picture(case, places).original()
        path = folder / f"{name}.svg"
        put(path, render("graph.svg.html.j2", shown=shown, name=name))
        paths.append(str(path))
    return paths


def _settings(one: Case, other: Case) -> Iterator[str]:
    for name in ("format", "target", "origin"):
        yield from _changed(name, str(getattr(one, name) or ""), str(getattr(other, name) or ""))
    settings = dict(one.settings), dict(other.settings)
    for name in sorted(settings[0].keys() | settings[1].keys()):
        yield from _changed(f"setting {name}", *(str(each.get(name, "")) for each in settings))


def _changed(name: str, one: str, other: str) -> Iterator[str]:
    if one != other:
        yield f"{name}: {one or 'none'} → {other or 'none'}"


def _inputs(one: Case, other: Case) -> Iterator[str]:
    """Inputs in their order: a changed name alone is no difference."""
    for at, (first, second) in enumerate(zip_longest(one.inputs.items(), other.inputs.items())):
        texts = [describe_value(each[1]) if each else "" for each in (first, second)]
        yield from _changed(f"input {at} ({(first or second)[0]})", *texts)


def _opsets(one: Case, other: Case) -> Iterator[str]:
    texts = []
    for case in (one, other):
        model = _parse(case)
        opsets = sorted((each.domain or "ai.onnx", each.version) for each in model.opset_import)
        named = ", ".join(f"{domain} {version}" for domain, version in opsets)
        texts.append((str(model.ir_version), named))
    yield from _changed("IR version", texts[0][0], texts[1][0])
    yield from _changed("opset", texts[0][1], texts[1][1])


def _nodes_apart(one: Sequence[Described], other: Sequence[Described]) -> Iterator[str]:
    for tag, first, second in _aligned(one, other):
        if tag == "equal":
            for before, after in zip(first, second, strict=True):
                yield from _node_apart(before, after)
        else:
            yield from (f"only in A: {_node_text(node)}" for node in first)
            yield from (f"only in B: {_node_text(node)}" for node in second)


def _node_apart(one: Described, other: Described) -> Iterator[str]:
    for name in sorted(one.attributes.keys() | other.attributes.keys()):
        texts = one.attributes.get(name, ""), other.attributes.get(name, "")
        yield from _changed(f"{_place(one)}: attribute {name}", *texts)
    yield from _changed(f"{_place(one)}: type", ", ".join(one.types), ", ".join(other.types))


def _place(node: Described) -> str:
    return f"{node.op} in a body" if node.place is None else f"node {node.place} {node.op}"


def _node_text(node: Described) -> str:
    attributes = ", ".join(f"{name}={text}" for name, text in node.attributes.items())
    return f"{_place(node)}{f' {{{attributes}}}' if attributes else ''}: {', '.join(node.types)}"


def _aligned(
    one: Sequence[Described], other: Sequence[Described]
) -> Iterator[tuple[str, Sequence[Described], Sequence[Described]]]:
    first, second = [node.op for node in one], [node.op for node in other]
    for tag, a, b, c, d in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        yield tag, one[a:b], other[c:d]


def _marked(one: Sequence[Described], other: Sequence[Described]) -> tuple[frozenset[int], frozenset[int]]:
    """The nodes of each main graph that have no equal in the other."""
    found: tuple[list[Described], list[Described]] = ([], [])
    for tag, first, second in _aligned(one, other):
        if tag != "equal":
            found[0].extend(first)
            found[1].extend(second)
            continue
        for before, after in zip(first, second, strict=True):
            if list(_node_apart(before, after)):
                found[0].append(before)
                found[1].append(after)
    a, b = (frozenset(node.place for node in each if node.place is not None) for each in found)
    return a, b


def _weights(one: Case, other: Case) -> Iterator[str]:
    counts = [
        Counter(
            tensor_text(tensor) for graph in walk_graphs(_parse(case).graph) for tensor in graph.initializer
        )
        for case in (one, other)
    ]
    for name, left in (("A", counts[0] - counts[1]), ("B", counts[1] - counts[0])):
        yield from (f"weight only in {name}: {text}" for text in sorted(left.elements()))


def _lines(one: Case, other: Case) -> Iterator[str]:
    """Yield the texts of two programs of other formats, line by line."""
    texts = []
    for case in (one, other):
        texts.append(find_format(case.format).print_text(case.parsed).splitlines())
    yield from unified_diff(texts[0], texts[1], "A", "B", lineterm="", n=1)


def _nodes(case: Case) -> list[Described]:
    """Every node in order; a node's bodies follow it."""
    model = _parse(case)
    types = inferred_types(model)
    return [each for place, node in enumerate(model.graph.node) for each in _described(node, types, place)]


def _described(
    node: onnx.NodeProto, types: Mapping[str, onnx.TypeProto], place: int | None
) -> Iterator[Described]:
    bodies = list(subgraphs(node))
    plain = (each for each in node.attribute if not (each.HasField("g") or each.graphs))
    attributes = {each.name: attribute_text(each) for each in sorted(plain, key=lambda each: each.name)}
    made = tuple(type_text(types[name]) if name in types else "?" for name in node.output if name)
    yield Described(op_name(node), attributes, made, place)
    for body in bodies:
        for inner in body.node:
            yield from _described(inner, types, None)


def _parse(case: Case) -> onnx.ModelProto:
    model: onnx.ModelProto = case.parsed
    return model


NAME = "reduction.html"
MANY_NODES = 30
"""From here on an overview helps."""
MOST_LINES = 200
SCRIPT = """for (const box of document.querySelectorAll(".wide")) {
  const to = box.querySelector("svg").dataset;
  box.scrollTop = to.y - box.clientHeight / 2;
  box.scrollLeft = to.x - box.clientWidth / 2;
}"""
"""Brings the first kept node of a large picture into view; the page says all without it."""


def write_page(folder: Path, original: Case | None) -> None:
    """Draw the finished or interrupted reduction in a folder; without the original only what is left of it.

    The same bytes for the same reduction, whole or not at all.
    """
    facts = {**BLANK, **read_result(folder / REDUCTION)}
    page = _page(facts, Case.load(folder), original, has_script=(folder / "repro.py").is_file())
    write_fresh(folder / NAME, page)


def _page(facts: Mapping[str, Any], case: Case, original: Case | None, *, has_script: bool) -> str:
    before = kept_picture(original, facts["kept"]) if original is not None else None
    return render(
        "reduction.html.j2",
        facts=facts,
        target=str(case.target or ""),
        after=picture_of(case),
        listing=_listing(case),
        inputs=list(describe_values(case.inputs).items()),
        before=before.original() if before else None,
        dots=before.dots() if before and len(before.nodes) > MANY_NODES else None,
        is_cut=before.is_cut if before else False,
        count=len(before.nodes) if before else 0,
        curves=curves(facts),
        symptom=[part.strip() for part in facts["symptom"].split(" | ")] if facts["symptom"] else [],
        operators=" → ".join(facts["ops"]) if len(facts["ops"]) <= 6 else "",
        has_script=has_script,
        script=SCRIPT,
        script_hash=hash_of(SCRIPT),
    )


def picture_of(case: Case) -> Shown | None:
    """The picture of a small program."""
    return small_picture(drawn(case), describe_values(case.inputs))


def _listing(case: Case) -> str:
    lines = list_case(case).splitlines()
    more = len(lines) - MOST_LINES
    return "\n".join([*lines[:MOST_LINES], *([f"… and {more:,} more lines"] if more > 0 else [])])


def curves(facts: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Nodes and bytes over checks."""
    return [(unit, curve(_points(facts, unit), facts["checks"])) for unit in ("nodes", "bytes")]


def _points(facts: Mapping[str, Any], unit: str) -> list[tuple[int, int]]:
    start = all_nodes(facts, "before") if unit == "nodes" else facts[f"{unit}_before"]
    return [(0, start), *((point["check"], point[unit]) for point in facts["curve"])]
