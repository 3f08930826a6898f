"""What `reduction.html` shows, that it stands alone, and that its drawings are sound."""

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from corpus.case import Case
from tests.helpers.counting import calls_of
from tests.helpers.failing import ORT, model
from tests.helpers.models import model_of
from triage.pages.differences import NAME, write_page
from triage.views.charts import curve
from triage.views.graph_layout import Box, Drawing, Gaps, draw, topological_order
from triage.views.graph_picture import MOST_WHOLE, GraphPicture

FLOAT = (TensorProto.FLOAT, [2, 3])


def chain(count: int) -> Case:
    """`count` times Neg, the value of each called n0, n1, …"""
    names = ["x", *(f"n{at}" for at in range(count))]
    nodes = [("Neg", [before], [after]) for before, after in pairwise(names)]
    made = model(nodes, {"x": FLOAT}, {names[-1]: FLOAT})
    return Case("onnx", made.SerializeToString(), {"x": np.ones((2, 3), np.float32)}, ORT)


def facts(before: int, kept: list[int]) -> dict[str, object]:
    """A `reduction.json` of a case that one Neg is left of."""
    step = {"move": "bisect <nodes> by cut", "check": 7, "nodes": 1, "elements": 6, "bytes": 90}
    return {
        "nodes_before": before,
        "nodes_after": 1,
        "function_nodes_before": 0,
        "function_nodes_after": 0,
        "bytes_before": 12345,
        "bytes_after": 90,
        "checks": 31,
        "sweep_checks": 24,
        "symptom": "exception | optimise | Fail | site.cc f | type <T> & more | optimised",
        "minimal": True,
        "failure_rate": 1.0,
        "runs_per_decision": 1,
        "ops": ["Neg"],
        "passes": ["SomePass"],
        "kept": kept,
        "steps": [step],
        "curve": [{"check": 3, "nodes": 40, "bytes": 700}, {"check": 7, "nodes": 1, "bytes": 90}],
    }


def page(folder: Path, original: Case | None, told: dict[str, object]) -> str:
    chain(1).save(folder)
    (folder / "reduction.json").write_text(json.dumps(told))
    write_page(folder, original)
    return (folder / NAME).read_text(encoding="utf-8")


class Outline(HTMLParser):
    """Which tags stand open; refuses one that is closed in the wrong place."""

    VOID = frozenset({"meta", "path", "rect", "circle"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.VOID

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_asks_for_nothing_from_elsewhere(tmp_path):
    text = page(tmp_path, chain(40), facts(40, [17]))
    outline = Outline()
    outline.feed(text)
    assert outline.open == []
    assert outline.addresses == []
    assert not re.search(r"https?:|url\(|@import", text)


def test_the_page_tells_what_the_folder_tells(tmp_path):
    text = page(tmp_path, chain(40), facts(40, [17]))
    for told in (
        "40 nodes reduced to 1: Neg",
        "12,345 → 90",
        "31",
        "24 of them after the last find",
        "SomePass",
    ):
        assert told in text


def test_foreign_text_stays_text(tmp_path):
    text = page(tmp_path, chain(2), facts(2, [0]))
    assert "bisect &lt;nodes&gt; by cut" in text
    assert "type &lt;T&gt; &amp; more" in text
    assert "<T>" not in text


@pytest.mark.parametrize(("count", "kept"), [(5, [2]), (MOST_WHOLE, [0, 149]), (2000, [3, 1200])])
def test_each_kept_node_is_highlighted_once(tmp_path, count, kept):
    text = page(tmp_path, chain(count), facts(count, kept))
    assert text.count('<g class="kept">') == len(kept)


def test_a_large_original_is_drawn_by_what_is_near_the_kept_nodes(tmp_path):
    text = page(tmp_path, chain(5000), facts(5000, [2500]))
    assert text.count('<g class="node">') == 3 + 3 + 1  # steps up, steps down, what is left
    assert text.count('class="mark"') == 1
    assert len(text) < 150_000


def test_the_same_reduction_gives_the_same_bytes(tmp_path):
    pages = [page(tmp_path / name, chain(60), facts(60, [17])) for name in ("one", "two")]
    assert pages[0] == pages[1]
    assert str(tmp_path) not in pages[0]


def test_without_the_original_only_what_is_left_is_shown(tmp_path):
    text = page(tmp_path, None, facts(40, []))
    assert "Where it was in the original" not in text
    assert "What is left" in text


def test_a_script_is_named_only_where_it_is(tmp_path):
    assert "python repro.py" not in page(tmp_path, None, facts(2, []))
    (tmp_path / "repro.py").write_text("")
    assert "python repro.py" in page(tmp_path, None, facts(2, []))


DIAMOND = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)]


def test_boxes_of_a_layer_stay_apart_and_layers_go_down():
    boxes = [Box(60, 20), Box(200, 30), Box(80, 20), Box(40, 20)]
    gaps = Gaps()
    drawing = draw(boxes, DIAMOND, gaps)
    assert all(drawing.centres[upper].y < drawing.centres[lower].y for upper, lower in DIAMOND)
    left, right = sorted((1, 2), key=lambda at: drawing.centres[at].x)
    between = drawing.centres[right].x - drawing.centres[left].x
    assert between >= (boxes[left].width + boxes[right].width) / 2 + gaps.beside - 0.2
    for box, centre in zip(boxes, drawing.centres, strict=True):
        assert centre.x - box.width / 2 >= 0
        assert centre.x + box.width / 2 <= drawing.width
        assert centre.y + box.height / 2 <= drawing.height


def test_a_line_past_a_layer_does_not_run_through_its_boxes():
    boxes = [Box(60, 20)] * 4
    drawing = draw(boxes, DIAMOND)
    bend = drawing.routes[DIAMOND.index((0, 3))][1]
    assert all(abs(bend.x - drawing.centres[at].x) > 30 for at in (1, 2))


def test_crossings_that_need_not_be_are_untangled():
    drawing = draw([Box(40, 20)] * 4, [(0, 3), (1, 2)])
    xs = [point.x for point in drawing.centres]
    assert (xs[0] - xs[1]) * (xs[3] - xs[2]) > 0


def test_an_order_has_what_is_read_before_its_reader():
    reads = {0: [2, 3], 1: [0], 2: [3], 3: []}
    order = topological_order(4, reads)
    assert sorted(order) == [0, 1, 2, 3]
    assert all(order.index(source) < order.index(at) for at, sources in reads.items() for source in sources)


def test_a_body_s_reads_are_lines_of_its_node():
    branch = "b () => (float[2] b) { b = Neg (a) }"
    text = f"a = Abs (x) y = If (c) <then_branch = {branch}, else_branch = {branch}>"
    graph = model_of(f"g (float[2] x, bool c) => (float[2] y) {{ {text} }}").graph
    assert GraphPicture(graph, {}).sources == ((), (0,))


@pytest.mark.parametrize(
    "points", [[(0, 5489), (4, 40), (9, 2)], [(0, 1)], [(0, 7), (3, 7)], [(0, 10**9), (900, 0)]]
)
def test_a_curve_falls_and_stays_within_its_frame(points):
    chart = curve(points, points[-1][0] + 20)
    ys = [float(y) for y in re.findall(r"V([\d.]+)", chart.line)]
    assert ys == sorted(ys)
    assert all(chart.top <= y <= chart.bottom for y in ys)
    assert all(chart.top <= tick.at <= chart.bottom for tick in chart.up)
    assert chart.left <= chart.sweep < chart.right


def test_a_graph_in_which_everything_reads_everything_is_drawn_in_so_many_calls():
    edges = [(source, target) for target in range(150) for source in range(target)]
    drawn: list[Drawing] = []
    calls = calls_of(lambda: drawn.append(draw([Box(60, 40)] * 150, edges)))
    assert len(drawn[0].routes) == len(edges)
    assert calls < 500_000  # 250,000 when it was written
