"""Changes to a given model, each by types: insert, replace and delete nodes, draw one's attributes
anew, or have it compute in another element type.

The model is the one that `--from` names, or a random program. Its inner values are not known, so results may
leave the range in which a grown program keeps them. A Relax program that `--from` names is changed by
`relax_mutate`.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import onnx

from corpus.load import open_case
from corpus.onnx.graph import subgraphs, walk_nodes
from corpus.onnx.types import inferred_types
from corpus.values import Value
from generators.growth.grow import Program, grow
from generators.growth.steps import Bodies, is_defined, place, place_wanted, recognising
from generators.language.emit import Made, language_of, write_model
from generators.language.profile import UNLIMITED, Budget, bytes_of, draw_profile, qualified_name
from generators.language.scope import Scope
from generators.language.values import RandomSource
from oracles.operators import all_operators, known_operator
from oracles.relation.operator import Operator
from oracles.relation.program import (
    FIRST_OPSET,
    LAST_OPSET,
    MAX_ELEMENTS,
    MAX_RANK,
    DoesNotFit,
    Kind,
    Operand,
)
from oracles.relation.types import ALL, F16, F32, F64, DType, Range, TensorType, extent, is_float

_ASSUMED = 10.0
"""The magnitude that is assumed of a value that is not known."""

_TRIES = 12


class MutantScope(Scope):
    """A scope before one node of a model; its names do not occur there."""

    prefix = "mutant_v"


def _tensor_type(found: onnx.TypeProto) -> TensorType | None:
    """The type where it is a tensor of known dims that the budget allows."""
    tensor = found.tensor_type
    if tensor.elem_type not in ALL or not tensor.HasField("shape"):
        return None
    if not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
        return None
    shape = tuple(dim.dim_value for dim in tensor.shape.dim)
    fits = math.prod(max(dim, 1) for dim in shape) <= MAX_ELEMENTS and len(shape) <= MAX_RANK
    return TensorType(DType(tensor.elem_type), shape) if fits else None


class Mutant:
    """A model under change, the types of its values, and the inputs that came in."""

    def __init__(self, model: onnx.ModelProto, draws: RandomSource, budget: Budget = UNLIMITED) -> None:
        self.model = deepcopy(model)
        self.graph = self.model.graph
        self.draws = draws
        self.budget = budget
        found = {name: _tensor_type(of) for name, of in inferred_types(model).items()}
        self.types = {name: of for name, of in found.items() if of is not None}
        self.inputs: dict[str, Value] = {}
        self._scopes = 0

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators."""
        return next((entry.version for entry in self.model.opset_import if not entry.domain), LAST_OPSET)

    def places(self) -> list[int]:
        """The nodes that may change, in any order."""
        found = [at for at, node in enumerate(self.graph.node) if node.op_type != "Constant"]
        return self.draws.sample(found, len(found))

    def operand(self, name: str) -> Operand | None:
        """A value with the range that is assumed of it."""
        if name not in self.types:
            return None
        dtype, shape = self.types[name]
        limit = extent(dtype)
        return Operand(name, dtype, shape, Range(max(limit.low, -_ASSUMED), min(limit.high, _ASSUMED)))

    def steers(self, node: onnx.NodeProto) -> bool:
        """Whether its result may be a shape or axes of another node."""
        made = self.operand(node.output[0])
        used = {name for one in self.graph.node for name in one.input}
        return made is not None and _may_steer(made) and made.name in used

    def scope(self, at: int) -> MutantScope:
        """The values that a node at this place may use."""
        profile = replace(
            draw_profile(self.draws, self.budget), opset=self.opset, realms=frozenset(), extreme=0.0
        )
        made = MutantScope(self.draws, profile, Bodies())
        made.costs = [self.cost()]
        made.skip_names(1000 * self._scopes)
        self._scopes += 1
        names = [info.name for info in self.graph.input]
        names += [name for node in self.graph.node[:at] for name in node.output]
        made.pool = [operand for operand in map(self.operand, names) if operand is not None]
        return made

    def cost(self) -> tuple[int, int, int]:
        """Operations, bytes and nodes, at most: every node may be a product of its operands."""
        if not self.budget.is_limited:
            return 0, 0, 0
        flops = 0
        for node in self.graph.node:
            sizes = [math.prod(self.types[name].shape) for name in node.input if name in self.types]
            made = sum(math.prod(self.types[name].shape) for name in node.output if name in self.types)
            flops += 2 * made * max(sizes, default=1) + sum(sizes)
        return flops, sum(bytes_of(*one) for one in self.types.values()), len(self.graph.node)

    def adopt(self, scope: MutantScope, at: int) -> None:
        """Insert the nodes grown in the scope before the node at this place."""
        grown = write_model(scope, []).graph
        nodes = [*self.graph.node[:at], *grown.node, *self.graph.node[at:]]
        del self.graph.node[:]
        self.graph.node.extend(nodes)
        self.graph.initializer.extend(grown.initializer)
        self.graph.input.extend(grown.input)
        self.inputs.update((operand.name, array) for operand, array in scope.inputs)
        self.types.update((operand.name, operand.type) for operand in scope.pool)
        self.types.update((operand.name, operand.type) for operand, _ in scope.inputs)

    def put(self, scope: MutantScope, at: int) -> None:
        """Put the nodes grown in the scope in place of the node there: the last of them makes its result."""
        name, last = self.graph.node[at].output[0], at + len(scope.nodes) + len(scope.constants)
        self.adopt(scope, at)
        self.graph.node[last - 1].output[0] = name
        del self.graph.node[last]

    def rename_uses(self, old: str, new: str, first: int) -> None:
        """Let nodes from a place on read another value, those in their bodies too."""
        for node in self.graph.node[first:]:
            for inner in (node, *(one for body in subgraphs(node) for one in walk_nodes(body))):
                for index, name in enumerate(inner.input):
                    if name == old:
                        inner.input[index] = new


Mutation = Callable[[Mutant], bool]


def insert(mutant: Mutant) -> bool:
    """An operator that keeps the type, before one operand of a node."""
    for at in mutant.places()[:_TRIES]:
        node = mutant.graph.node[at]
        operand = mutant.operand(mutant.draws.pick(list(node.input))) if node.input else None
        if operand is None or (_may_steer(operand) and operand.name != node.input[0]):
            continue
        scope = mutant.scope(at)
        result = _sampled(scope, mutant.draws.pick(all_operators()), operand)
        if result is None:
            continue
        index = list(node.input).index(operand.name)
        node.input[index] = result.name
        mutant.adopt(scope, at)
        return True
    return False


def _may_steer(operand: Operand) -> bool:
    """Whether the value may be a shape, pads or axes: other numbers there could break the size budget."""
    return operand.dtype in (DType.I64, DType.I32) and operand.rank <= 1


def _sampled(scope: Scope, operator: Operator, focus: Operand) -> Operand | None:
    """The result of the operator on the focus, where its type is the focus's."""
    if not (operator.is_standard and operator.takes(focus.dtype, focus.rank, scope.opset)):
        return None
    try:
        call = operator.sample(scope, focus) if is_defined(operator, focus) else None
    except DoesNotFit:
        return None
    if call is None or operator.infer(call)[0] != focus.type:
        return None
    placed = place(scope, operator, call)
    return placed[0] if placed else None


def replace_node(mutant: Mutant) -> bool:
    """Find another operator with a result of the same type, by its solver, over the values that exist."""
    for at in mutant.places()[:_TRIES]:
        node = mutant.graph.node[at]
        wanted = mutant.types.get(node.output[0]) if len(node.output) == 1 else None
        if wanted is None or mutant.steers(node):
            continue
        scope = mutant.scope(at)
        operator = recognising(mutant.draws, wanted, scope.opset, frozenset())
        placed = operator and place_wanted(scope, operator, wanted)
        if not placed:
            continue
        mutant.put(scope, at)
        return True
    return False


def delete(mutant: Mutant) -> bool:
    """A node gives way to one of its operands of the same type."""
    shown = {info.name for info in mutant.graph.output}
    for at in mutant.places():
        node = mutant.graph.node[at]
        wanted = mutant.types.get(node.output[0])
        same = [name for name in node.input if name and mutant.types.get(name) == wanted]
        if wanted is None or not same or len(node.output) > 1 or node.output[0] in shown:
            continue
        if mutant.steers(node):
            continue
        mutant.rename_uses(node.output[0], mutant.draws.pick(same), at + 1)
        del mutant.graph.node[at]
        return True
    return False


def redraw(mutant: Mutant) -> bool:
    """The same operator on the same focus, its attributes and other operands drawn anew."""
    for at in mutant.places()[:_TRIES]:
        node = mutant.graph.node[at]
        operator = known_operator(qualified_name(node))
        focus = mutant.operand(node.input[0]) if node.input else None
        if operator is None or focus is None or len(node.output) > 1 or mutant.steers(node):
            continue
        scope = mutant.scope(at)
        result = _sampled(scope, operator, focus)
        if result is None or mutant.types.get(node.output[0]) != result.type:
            continue
        mutant.put(scope, at)
        return True
    return False


_WIDER = {F16: (F32, F64), F32: (F64,), F64: (F32,), DType.I32: (DType.I64,)}
"""By type, others that hold what it does, so that no value changes much."""


def retype(mutant: Mutant) -> bool:
    """A node computes in another element type: casts go around it."""
    for at in mutant.places()[:_TRIES]:
        node = mutant.graph.node[at]
        operator = known_operator(qualified_name(node))
        own = mutant.types.get(node.input[0]) if node.input else None
        result = mutant.types.get(node.output[0]) if len(node.output) == 1 else None
        if operator is None or own is None or result is None or not _is_uniform(mutant, node, own.dtype):
            continue
        others = [dtype for dtype in operator.dtypes_at(mutant.opset) if dtype in _WIDER.get(own.dtype, ())]
        if not others or result.dtype is not own.dtype or operator.kind in (Kind.CAST, Kind.QUANTISE):
            continue
        other = mutant.draws.pick(others)
        wide = [(other, mutant.types[name].shape) for name in (*node.input, node.output[0]) if name]
        flops, memory, steps = mutant.cost()
        more = sum(bytes_of(*one) for one in wide)
        if not mutant.budget.holds(flops + memory, memory + more, steps + len(wide)):
            return False
        _cast_around(mutant, at, own.dtype, other)
        return True
    return False


def _is_uniform(mutant: Mutant, node: onnx.NodeProto, dtype: DType) -> bool:
    """Whether every operand has the type; integers may be shapes or axes, so of them a lone one."""
    names = [name for name in node.input if name]
    known = all(name in mutant.types and mutant.types[name].dtype is dtype for name in names)
    return known and (is_float(dtype) or len(names) == 1)


def _cast_around(mutant: Mutant, at: int, own: DType, other: DType) -> None:
    node, mark = mutant.graph.node[at], f"retyped_{len(mutant.types)}"
    casts = []
    for index, name in enumerate(node.input):
        if name:
            made = f"{mark}_{index}"
            casts.append(onnx.helper.make_node("Cast", [name], [made], f"cast_{made}", to=int(other)))
            mutant.types[made] = TensorType(other, mutant.types[name].shape)
            node.input[index] = made
    name = node.output[0]
    node.output[0] = mark
    mutant.types[mark] = TensorType(other, mutant.types[name].shape)
    back = onnx.helper.make_node("Cast", [mark], [name], f"cast_{mark}", to=int(own))
    nodes = [*mutant.graph.node[:at], *casts, node, back, *mutant.graph.node[at + 1 :]]
    copies = [onnx.NodeProto.FromString(one.SerializeToString()) for one in nodes]
    del mutant.graph.node[:]
    mutant.graph.node.extend(copies)


MUTATIONS: tuple[Mutation, ...] = (insert, replace_node, delete, redraw, retype)


def programs(seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget) -> Iterator[Made]:
    """One to four changes to each seed's model."""
    given = open_case(source) if source else None
    for seed in seeds:
        if given is not None:
            yield language_of(given.format).mutant(given, seed, nodes, budget)
            continue
        program = grow(seed, nodes, budget=budget)
        yield mutate(program.model, program.inputs, RandomSource(f"mutate/{seed}/{nodes}"), budget)


def mutate(
    model: onnx.ModelProto, inputs: Mapping[str, Value], draws: RandomSource, budget: Budget = UNLIMITED
) -> Program:
    """The model after some changes; one that no change fits comes back as it was."""
    mutant = Mutant(model, draws, budget)
    if FIRST_OPSET <= mutant.opset <= LAST_OPSET:
        for _ in range(draws.between(1, 4)):
            any(mutation(mutant) for mutation in draws.sample(MUTATIONS, len(MUTATIONS)))
    del mutant.graph.value_info[:]
    if budget.depth is not None and not budget.reaches(_depth(mutant.graph)):
        mutant = Mutant(model, draws, budget)
    return Program(mutant.model, {**inputs, **mutant.inputs}, mutant.types, {})


def _depth(graph: onnx.GraphProto) -> int:
    """Count the nodes of the longest chain; Constant is none, and a body counts as one node."""
    depths: dict[str, int] = {}
    for node in graph.node:
        inner = (name for body in subgraphs(node) for one in walk_nodes(body) for name in one.input)
        longest = max((depths.get(name, 0) for name in (*node.input, *inner)), default=0)
        depths.update(dict.fromkeys(node.output, longest + (node.op_type != "Constant")))
    return max(depths.values(), default=0)


STRATEGIES = {"mutate": programs}
