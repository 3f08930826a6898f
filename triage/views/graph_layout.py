"""A layered drawing of a directed acyclic graph (Sugiyama's): ranks, an order in each, places that line up.

Ranks are longest paths; an edge over several ranks gets a bend in each of them, so that it passes between the
boxes; orders come from sweeps by barycentre; places are the least-squares fit to the neighbours' that keeps
every box clear of the next one. Small and deterministic; made for some hundred boxes.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

SWEEPS = 8
BEND_WIDTH = 6.0
MOST_BENDS = 1500
"""With more of them the longest edges go straight, whatever is in their way."""


@dataclass(frozen=True, slots=True)
class Box:
    """The size of a vertex's box."""

    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Point:
    """A place in the drawing, in pixels."""

    x: float
    y: float


@dataclass(frozen=True)
class Drawing:
    """A layout: the centre of each box, the points of each edge, and the total size."""

    centres: tuple[Point, ...]
    routes: tuple[tuple[Point, ...], ...]
    width: float
    height: float


@dataclass(frozen=True)
class Gaps:
    """The space between the boxes of a rank, between ranks, and around all."""

    beside: float = 18.0
    between: float = 30.0
    around: float = 10.0


def draw(boxes: Sequence[Box], edges: Sequence[tuple[int, int]], gaps: Gaps | None = None) -> Drawing:
    """Lay out boxes; `edges` are pairs of their indices, from a lower index to a higher one."""
    gaps = gaps or Gaps()
    ranks = _ranks(len(boxes), edges)
    mesh = _mesh(boxes, edges, ranks)
    rows = _ordered(mesh)
    xs = _places(mesh, rows, gaps)
    return _drawing(mesh, rows, xs, gaps)


@dataclass
class _Mesh:
    """The graph with a bend for each rank that an edge crosses: every link leads to the next rank."""

    boxes: list[Box]
    ranks: list[int]
    paths: list[list[int]] = field(default_factory=list)
    above: list[list[int]] = field(default_factory=list)
    below: list[list[int]] = field(default_factory=list)
    real: int = 0


def _ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The longest path from a source; then sources move down to just above the first that reads them."""
    ranks = [0] * count
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        ranks[target] = max(ranks[target], ranks[source] + 1)
    targets = {target for _, target in edges}
    nearest: dict[int, int] = {}
    for source, target in edges:
        nearest[source] = min(nearest.get(source, ranks[target]), ranks[target])
    return [
        max(nearest[vertex] - 1, 0) if vertex in nearest and vertex not in targets else rank
        for vertex, rank in enumerate(ranks)
    ]


def _mesh(boxes: Sequence[Box], edges: Sequence[tuple[int, int]], ranks: list[int]) -> _Mesh:
    mesh = _Mesh(list(boxes), list(ranks), real=len(boxes))
    straight = _straight(edges, ranks)
    for edge in edges:
        source, target = edge
        path = [source]
        for rank in () if edge in straight else range(ranks[source] + 1, ranks[target]):
            path.append(len(mesh.boxes))
            mesh.boxes.append(Box(BEND_WIDTH, 0))
            mesh.ranks.append(rank)
        mesh.paths.append([*path, target])
    mesh.above = [[] for _ in mesh.boxes]
    mesh.below = [[] for _ in mesh.boxes]
    for path in mesh.paths:
        for upper, lower in pairwise(path):
            if mesh.ranks[lower] == mesh.ranks[upper] + 1:
                mesh.below[upper].append(lower)
                mesh.above[lower].append(upper)
    return mesh


def _straight(edges: Sequence[tuple[int, int]], ranks: list[int]) -> set[tuple[int, int]]:
    """The longest edges, for which there are no bends left."""
    spans = sorted((ranks[target] - ranks[source] - 1, source, target) for source, target in edges)
    return {
        (source, target)
        for (_, source, target), bends in zip(spans, accumulate(span for span, *_ in spans), strict=True)
        if bends > MOST_BENDS
    }


def _ordered(mesh: _Mesh) -> list[list[int]]:
    """List the vertices of each rank from left to right, each near the mean place of its neighbours."""
    rows: list[list[int]] = [[] for _ in range(max(mesh.ranks, default=-1) + 1)]
    for vertex, rank in enumerate(mesh.ranks):
        rows[rank].append(vertex)
    best, fewest = [list(row) for row in rows], _crossings(mesh, rows)
    for sweep in range(SWEEPS):
        links = mesh.above if sweep % 2 == 0 else mesh.below
        place = {vertex: at for row in rows for at, vertex in enumerate(row)}
        for row in rows if sweep % 2 == 0 else reversed(rows):
            row.sort(key=lambda vertex: _mean([place[other] for other in links[vertex]], place[vertex]))
            place.update((vertex, at) for at, vertex in enumerate(row))
        if (count := _crossings(mesh, rows)) < fewest:
            best, fewest = [list(row) for row in rows], count
    return best


def _crossings(mesh: _Mesh, rows: list[list[int]]) -> int:
    """Count the pairs of links that cross below each rank."""
    place = {vertex: at for row in rows for at, vertex in enumerate(row)}
    count = 0
    for row in rows:
        ends = [place[lower] for vertex in row for lower in sorted(mesh.below[vertex], key=place.__getitem__)]
        seen: list[int] = []
        for end in ends:
            at = bisect_right(seen, end)
            count += len(seen) - at
            seen.insert(at, end)
    return count


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _places(mesh: _Mesh, rows: list[list[int]], gaps: Gaps) -> list[float]:
    """The x of every vertex: rank by rank down and up, as near to its neighbours as the boxes allow."""
    xs = [0.0] * len(mesh.boxes)
    for row in rows:
        for vertex, x in zip(row, _fit([0.0] * len(row), row, mesh, gaps), strict=True):
            xs[vertex] = x
    for sweep in range(2 * SWEEPS):
        links = mesh.above if sweep % 2 == 0 else mesh.below
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = [_mean([xs[other] for other in links[vertex]], xs[vertex]) for vertex in row]
            for vertex, x in zip(row, _fit(wanted, row, mesh, gaps), strict=True):
                xs[vertex] = x
    return xs


def _fit(wanted: list[float], row: list[int], mesh: _Mesh, gaps: Gaps) -> list[float]:
    """Places next to the wanted ones that keep order and distance: pooling of adjacent violators."""
    offsets, at = [], 0.0
    for index, vertex in enumerate(row):
        if index:
            before = mesh.boxes[row[index - 1]].width
            at += (before + mesh.boxes[vertex].width) / 2 + gaps.beside
        offsets.append(at)
    blocks: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=True):
        mean, count = want - offset, 1
        while blocks and blocks[-1][0] > mean:
            earlier, size = blocks.pop()
            mean, count = (earlier * size + mean * count) / (size + count), size + count
        blocks.append((mean, count))
    starts = [mean for mean, count in blocks for _ in range(count)]
    return [start + offset for start, offset in zip(starts, offsets, strict=True)]


def _drawing(mesh: _Mesh, rows: list[list[int]], xs: list[float], gaps: Gaps) -> Drawing:
    """Move everything to positive coordinates and route the edges from box to box."""
    lefts = [x - box.width / 2 for x, box in zip(xs, mesh.boxes, strict=True)]
    rights = [x + box.width / 2 for x, box in zip(xs, mesh.boxes, strict=True)]
    shift = gaps.around - min(lefts, default=0.0)
    ys, bottom = _heights(mesh, rows, gaps)
    centres = [Point(round(x + shift, 1), round(y, 1)) for x, y in zip(xs, ys, strict=True)]
    routes = tuple(_route(path, centres, mesh.boxes) for path in mesh.paths)
    width = max(rights, default=0.0) + shift + gaps.around
    return Drawing(tuple(centres[: mesh.real]), routes, round(width, 1), round(bottom, 1))


def _heights(mesh: _Mesh, rows: list[list[int]], gaps: Gaps) -> tuple[list[float], float]:
    ys, top = [0.0] * len(mesh.boxes), gaps.around
    for row in rows:
        height = max((mesh.boxes[vertex].height for vertex in row), default=0.0)  # a cycle leaves rows empty
        for vertex in row:
            ys[vertex] = top + height / 2
        top += height + gaps.between
    return ys, top - (gaps.between if rows else 0) + gaps.around


def _route(path: list[int], centres: list[Point], boxes: list[Box]) -> tuple[Point, ...]:
    first, last = centres[path[0]], centres[path[-1]]
    start = Point(first.x, round(first.y + boxes[path[0]].height / 2, 1))
    end = Point(last.x, round(last.y - boxes[path[-1]].height / 2, 1))
    return (start, *(centres[vertex] for vertex in path[1:-1]), end)


def svg_path(points: Sequence[Point]) -> str:
    """A smooth line through the points, vertical at each of them."""
    start, *rest = points
    pieces, before = [f"M{start.x:g} {start.y:g}"], start
    for point in rest:
        middle = round((before.y + point.y) / 2, 1)
        pieces.append(f"C{before.x:g} {middle:g} {point.x:g} {middle:g} {point.x:g} {point.y:g}")
        before = point
    return "".join(pieces)


def topological_order(count: int, edges: Mapping[int, Sequence[int]]) -> list[int]:
    """Vertices so that each comes after those that it reads, to which `edges` maps; their order else."""
    order: list[int] = []
    state = [0] * count
    for root in range(count):
        stack = [root]
        while stack:
            vertex = stack[-1]
            if state[vertex] == 0:
                state[vertex] = 1
                stack.extend(other for other in reversed(edges.get(vertex, ())) if state[other] == 0)
                continue
            stack.pop()
            if state[vertex] == 1:
                state[vertex] = 2
                order.append(vertex)
    return order
