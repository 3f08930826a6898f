"""Whole programs of a policy: one a seed, with values for main's inputs.

An operand is a value in scope or a new one; what the pattern gives may be read by all that grows later,
patterns of other passes included.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from corpus.case import Case, Remark
from corpus.errors import UserError
from corpus.graphs.format import renamed, symbols
from corpus.graphs.program import Binding, GraphProgram, Input, graph_of_json, graph_to_json, parted, tag_of
from corpus.pattern import GraphPattern
from corpus.values import Tensor as Array
from generators.language.profile import UNLIMITED, Budget, Counts, Use
from generators.language.values import RandomSource
from generators.pools import Bred
from generators.relax.choices import FORMS, Choices, any_tensor
from generators.relax.forms import forms
from generators.relax.leaves import Growth, new_input
from generators.relax.making import Frame, graph_json
from generators.relax.operator import ANY, Json, Tensor, Type, Want, Within, concrete
from generators.relax.ops import operators
from generators.relax.watched import TooLarge, Unsound, depths_of, names_of

APART = "apart"
"""What a binding is told that is to be in no block: a pass may look for it there."""
TOGETHER = "together"
"""What bindings are told, with one name for all, that stand in one block or in none: those of a pattern."""
_OUTSIDE = frozenset({"if", "function", "relax.shape_of", "relax.tensor_to_shape"})
"""What no dataflow block holds; a shape that types depend on may be no dataflow variable."""


def in_blocks(draws: RandomSource, share: float) -> Callable[[Json], Json]:
    """Marks the runs of a graph's bindings, and of those in its bodies, so that this share is dataflow."""
    numbers = count(1)

    def marked(graph: Json) -> Json:
        bindings, block, last = [], None, None
        for name, op, args, kwargs in graph["bindings"]:
            if belongs_outside(op, args) or kwargs.get(APART):
                block = None
            elif (run := kwargs.get(TOGETHER)) is not None and run == last:
                pass
            elif block is None or draws.chance(0.1):
                block = next(numbers) if draws.chance(share) else None
            last = kwargs.get(TOGETHER)
            kept = {key: item for key, item in kwargs.items() if key not in (APART, TOGETHER)}
            told = kept if block is None else {**kept, "block": block}
            bindings.append([name, op, [_inside(each) for each in args], told])
        return {**graph, "bindings": bindings}

    def _inside(item: Json) -> Json:
        return {"graph": marked(item["graph"])} if tag_of(item) == "graph" else item

    return marked


def belongs_outside(op: str, args: list[Json]) -> bool:
    """Whether no dataflow block may hold such a binding."""
    return op in _OUTSIDE or (op == "alias" and tag_of(args[0]) == "shape")


def count_program(program: GraphProgram, types: Mapping[str, Type]) -> Counts:
    """The counts of one program, given the types of its names; constants are operands without a maker."""
    bindings = [each for graph in (program.main, *program.functions.values()) for each in graph.walk()]
    known = {**types, **{name: Tensor(v.dtype.name, v.shape) for name, v in program.constants.items()}}
    makers = {each.name: each.op for each in bindings}
    return Counts.of((_use(each, known) for each in bindings), makers)


def _use(binding: Binding, known: Mapping[str, Type]) -> Use:
    tensors = [told for name in binding.reads if isinstance(told := known.get(name), Tensor)]
    result = known.get(binding.name)
    made = result.dtype if isinstance(result, Tensor) else type(result).__name__
    dtypes, shapes = tuple(told.dtype for told in tensors), tuple(told.shape for told in tensors)
    return Use(binding.op, dtypes, made, shapes, binding.reads)


def place_pattern(growth: Growth) -> str:
    """Put one in: the pass is drawn first, so that each is as likely; gives its name."""
    patterns = growth.policy.patterns
    fires = growth.draws.pick(sorted(patterns))
    pattern = growth.draws.pick(patterns[fires])
    program = renamed(pattern.program, {name: growth.fresh("q") for name in sorted(pattern.program.names)})
    for graph in program.functions.values():
        if not growth.budget.reaches(max(depths_of(graph.bindings, {}).values(), default=0)):
            raise TooLarge(fires)
    main = growth.main
    spans = [_within(pattern, item.name) for item in pattern.program.main.inputs]
    _bind_symbols_of_patterns(growth, program)
    wants = [Want(_tensor(item), span) for item, span in zip(program.main.inputs, spans, strict=True)]
    operands = [growth.grow(main, want.type, want.within) for want in wants]
    names = {item.name: operand.name for item, operand in zip(program.main.inputs, operands, strict=True)}
    growth.constants.update(program.constants)
    growth.functions.update({name: graph_to_json(graph) for name, graph in program.functions.items()})
    growth.opaque.update(program.told_outside)
    pairs = zip(pattern.program.main.bindings, program.main.bindings, strict=True)
    types = {new.name: pattern.types.get(old.name) for old, new in pairs}
    is_apart = not any("block" in each.kwargs for each in pattern.program.main.bindings)
    bindings = renamed(program, names).main.bindings
    for binding in bindings:
        _bind(growth, binding, types, {APART: True} if is_apart else {TOGETHER: bindings[0].name})
    known = {each.name for each in main.known}
    growth.results += [name for name in program.main.outputs if name in known]
    return fires


def _within(pattern: GraphPattern, name: str) -> Within:
    """The bounds of an input's values, from the program that the pattern was taken out of."""
    low, high = pattern.ranges.get(name, (0.0, 0.0))
    return Within(low, high, is_nonzero=low > 0 or high < 0)


def _bind_symbols_of_patterns(growth: Growth, program: GraphProgram) -> None:
    """An input for each symbolic dim of the pattern that the program does not have yet."""
    main = growth.main
    for name in symbols(item.shape for item in program.main.inputs):
        if name not in main.symbols:
            main.symbols.append(name)
            main.sizes[name] = growth.draws.between(2, 4)
            new_input(growth, main, Tensor("float32", (name,)), ANY)


def _tensor(item: Input) -> Tensor:
    """The type of an input; TooLarge for one that is no tensor."""
    dims = tuple(dim for dim in item.shape if dim is not None)
    if len(dims) < len(item.shape) or item.declared is not None:
        raise TooLarge(item.name)
    return Tensor(item.dtype, dims)


def _bind(growth: Growth, binding: Binding, types: Mapping[str, Any], apart: Mapping[str, Any]) -> None:
    """Add one binding of the pattern and run it.

    If it gives a tensor of known dims, later growth may read it.
    """
    run, frame = growth.run(), growth.main
    kwargs = {key: item for key, item in binding.kwargs.items() if key != "block"}
    known = {**run.constants, **frame.values(), **growth.hidden}
    try:
        value = run.value(binding.name, binding.op, list(binding.args), kwargs, known, frame.all_sizes())
    except (ArithmeticError, LookupError, ValueError) as error:  # operands that the operator does not take
        raise Unsound(str(error)) from error
    args = list(binding.args)
    growth.pay(binding.op, [known[each] for each in binding.reads if each in known], value, run.inside)
    growth.depths.update(depths_of((binding,), growth.depths))
    growth.place(binding.name, binding.op, args)
    frame.bindings.append([binding.name, binding.op, args, {**kwargs, **apart}])
    told = types.get(binding.name)
    if told is not None and has_shape(value, told[1], frame.all_sizes()):
        growth.know(frame, binding.name, Tensor(told[0], tuple(told[1])), value)
    else:
        growth.hidden[binding.name] = value


def has_shape(value: Any, dims: Any, sizes: Mapping[str, int]) -> bool:
    """Whether a value's dims are these, at the sizes that symbols have."""
    try:
        return isinstance(value, np.ndarray) and concrete(tuple(dims), sizes) == value.shape
    except UserError:  # a symbol that is not there
        return False


_MOST_FUEL = 10
_ATTEMPTS = 40
_EVENLY = 0.3
"""How often a result is grown for one operator, each as likely."""
_MOST_SIZE = 4
"""Of a symbolic dim."""
_PATTERN = 0.6
"""How often it is a pattern's turn, where a policy has any."""
_MOSTLY = 0.85
"""How often it is, where patterns are put into a program that holds some."""


USUAL = Choices()


@dataclass(frozen=True)
class RelaxProgram:
    """A program as data, and the values of its inputs."""

    program: GraphProgram
    inputs: Mapping[str, Array]
    types: Mapping[str, Type]
    fires: tuple[str, ...] = ()
    """The passes whose patterns it holds."""
    bred: Bred | None = None
    """What it was bred on, where a campaign keeps a pool."""
    alone: "RelaxProgram | None" = None
    """What was its main, if its main now runs that with several sizes."""

    format: ClassVar[str] = "relax"

    def as_case(self, seed: int) -> Case:
        """The case that a campaign judges."""
        text, notes = self.program.to_bytes(), tuple(map(Remark.PATTERN.note, self.fires))
        return Case(self.format, text, dict(self.inputs), origin=f"seed:{seed}", notes=notes)

    def counts(self) -> Counts:
        """Count the program's operators, with calls of functions."""
        return count_program(self.program, self.types)


def make_program(
    seed: int,
    nodes: int,
    policy: Choices = USUAL,
    budget: Budget = UNLIMITED,
    then: Sequence[int] = (),
    further: int = 0,
) -> RelaxProgram:
    """Make the program of a seed under a policy, of about `nodes` bindings, within a budget.

    Each seed of `then` puts patterns into it, by about `further` bindings.
    """
    growth = Growth(RandomSource(f"relax/{policy.name}/{seed}/{nodes}"), policy, nodes, budget, forms())
    _bind_symbols(growth)
    outputs: dict[str, None] = {}
    fires: list[str] = []
    _go_on(growth, outputs, fires, _PATTERN)
    for each in then:
        growth.draws, growth.left = RandomSource(f"relax/{policy.name}/on/{each}"), further
        _go_on(growth, outputs, fires, _MOSTLY)
    program = _document(growth, _results(growth, outputs))
    return RelaxProgram(program, dict(growth.feeds), growth.types, tuple(dict.fromkeys(fires)))


def _go_on(growth: Growth, outputs: dict[str, None], fires: list[str], share: float) -> None:
    """Grow until no binding is left; a pattern comes as often as `share` says, where a policy has any."""
    for _ in range(_ATTEMPTS):
        if growth.left <= 0 and (outputs or fires):
            return
        if growth.policy.patterns and growth.draws.chance(share):
            with growth.attempt(growth.main) as is_lost:
                fires.append(place_pattern(growth))
                is_lost.clear()
            continue
        with growth.attempt(growth.main) as is_lost:
            fuel = growth.draws.between(1, max(1, min(growth.left, _MOST_FUEL)))
            target = _of_one_operator(growth) or growth.policy.result(growth.asking(growth.main))
            outputs[growth.grow(growth.main, target, ANY, fuel).name] = None
            is_lost.clear()


def _of_one_operator(growth: Growth) -> Tensor | None:
    """Draw a type for an operator that is drawn evenly, since few types are those that some can give."""
    policy, growth.foremost = growth.policy, ""
    if policy.result is not any_tensor or not growth.draws.chance(_EVENLY):
        return None
    operator = growth.draws.pick([each for each in operators() if policy.weight(each) > 0])
    sampled = operator.sample(growth.asking(growth.main))
    growth.foremost = operator.name if sampled else ""
    return sampled[0] if sampled else None


def _bind_symbols(growth: Growth) -> None:
    """An input whose dims are the program's symbols, where it has any."""
    draws, policy, main = growth.draws, growth.policy, growth.main
    if not policy.symbols or not draws.chance(policy.symbolic):
        return
    names = policy.symbols[: draws.between(1, len(policy.symbols))]
    main.symbols += names
    most = growth.budget.dim or _MOST_SIZE
    main.sizes.update((name, min(draws.between(2, _MOST_SIZE), most)) for name in names)
    main.inputs.append(["", "", list(names)])  # so that these symbols count as bound
    dims = [dim for dim in policy.dims if growth.budget.fits((dim,))] or [1]
    told = Tensor(growth.floats[0], (*names, *draws.sample(dims, draws.below(2))))
    main.inputs.pop()
    with growth.attempt(main) as is_lost:
        new_input(growth, main, told, ANY)
        is_lost.clear()
    if is_lost:  # the budget has no room for it
        main.symbols.clear()
        main.sizes.clear()


def _results(growth: Growth, outputs: Mapping[str, None]) -> list[str]:
    """Choose the results: the target, and often values that nothing reads. A program returns at least one
    binding.
    """
    made = {item[0] for item in growth.main.bindings}
    grown_for = dict.fromkeys([*outputs, *growth.results])
    found = [name for name in grown_for if name in made or name in growth.feeds]
    read = {ref for item in growth.main.bindings for ref in names_of(item[2])}
    for each in growth.main.known:
        is_loose = each.name in made and each.name not in read and isinstance(each.type, Tensor)
        if is_loose and each.name not in found and growth.draws.chance(0.6):
            found.append(each.name)
    if not any(name in made for name in found):
        growth.budget = UNLIMITED  # a program has one result whatever it costs
        name = growth.fresh()
        source = found[0] if found else new_input(growth, growth.main, Tensor("float32", (2,)), ANY).name
        growth.main.bindings.append([name, "alias", [{"ref": source}], {}])
        found = [name]
    return [name for name in found if name in made] or found


def _document(growth: Growth, outputs: list[str]) -> GraphProgram:
    blocks = in_blocks(growth.draws, growth.policy.blocks)
    functions = {name: graph_of_json(blocks(graph)) for name, graph in growth.functions.items()}
    main: Frame = growth.main
    opaque, loops = parted(growth.opaque)
    graph = graph_of_json(blocks(graph_json(main, outputs, {"pure": True})))
    return GraphProgram("relax", graph, dict(growth.constants), functions, opaque, {"main": "main"}, loops)


__all__ = ["FORMS", "POLICY", "Policy", "Strategy"]

Strategy = Callable[[Sequence[int], int, Path | None, Budget], Iterator[object]]


@dataclass(frozen=True)
class Policy(Choices):
    """A policy of drawing programs; a strategy file makes one and calls its `programs()`."""

    def programs(self) -> Strategy:
        """The strategy of this policy, as `--strategy FILE.py:NAME` takes one."""

        def made(seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget) -> Iterator[object]:
            return (make_program(seed, nodes, self, budget) for seed in seeds)

        return made


POLICY = Policy()
