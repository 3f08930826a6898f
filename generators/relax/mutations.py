"""Changes to a Relax program that is a user's or was grown before; it stays well typed.

Each goes by types: insert, replace, delete, draw anew, move, regroup.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache

from corpus.graphs.program import REF, Binding, GraphProgram, graph_of_json, graph_to_json, tag_of
from corpus.values import Tensor as Array
from generators.language.profile import UNLIMITED, Budget
from generators.language.values import RandomSource
from generators.relax.choices import Choices
from generators.relax.mutant import BLOCK, Grown, Mutant, bounds_of, reading
from generators.relax.operator import Tensor, Type
from generators.relax.ops import operators
from generators.relax.programs import RelaxProgram, in_blocks
from generators.relax.watched import MOST_FLOAT, Unsound
from oracles.numerics.rewrites import GRAPH_REWRITES

Mutation = Callable[[Mutant], Mutant | None]
USUAL = Choices(name="mutant")
_TRIES = 6


def _places(mutant: Mutant) -> Iterator[tuple[int, Binding]]:
    found = tuple(enumerate(mutant.bindings))
    return iter(mutant.draws.sample(found, len(found))[:_TRIES])


def insert(mutant: Mutant) -> Mutant | None:
    """One operand of a binding is computed anew, by operators that keep its type."""
    for at, binding in _places(mutant):
        names = [name for name in binding.reads if {REF: name} in _flat(binding) and mutant.tensor(name)]
        if not names:
            continue
        name = mutant.draws.pick(names)
        grown = _like(mutant, at, name, USUAL)
        if grown is not None and grown.name != name:
            rest = (reading(binding, name, grown.name), *mutant.bindings[at + 1 :])
            return mutant.with_grown(at, grown, rest)
    return None


def _flat(binding: Binding) -> list[object]:
    """The arguments, those in tuples included."""
    tuples = [item["tuple"] for item in binding.args if tag_of(item) == "tuple"]
    return [*binding.args, *(item for each in tuples for item in each)]


def _like(mutant: Mutant, at: int, name: str, choices: Choices) -> Grown | None:
    """A value of the type of a name, within the bounds of its values, made before the place."""
    told = mutant.tensor(name)
    if told is None:
        return None
    return mutant.grown(at, choices, told, bounds_of(mutant.learned.values[name]), near=name)


def substitute(mutant: Mutant) -> Mutant | None:
    """A binding gives way to other operators of the same type."""
    return _in_place(mutant, lambda binding: USUAL)


def redraw(mutant: Mutant) -> Mutant | None:
    """The same operator with the same type, its attributes and operands drawn anew."""
    return _in_place(mutant, lambda binding: only(binding.op) if binding.op in _entries() else None)


def _in_place(mutant: Mutant, choices: Callable[[Binding], Choices | None]) -> Mutant | None:
    for at, binding in _places(mutant):
        chosen = choices(binding) if "type" not in binding.kwargs and binding.op != "alias" else None
        grown = _like(mutant, at, binding.name, chosen) if chosen is not None else None
        if grown is not None and grown.growth.main.bindings:
            return mutant.with_grown(at, grown, (_alias(binding, grown.name), *mutant.bindings[at + 1 :]))
    return None


def _alias(binding: Binding, source: str) -> Binding:
    block = {key: binding.kwargs[key] for key in (BLOCK,) if binding.kwargs.get(key) is not None}
    return Binding(binding.name, "alias", ({REF: source},), block)


@cache
def _entries() -> frozenset[str]:
    return frozenset(each.name for each in operators())


@cache
def only(op: str) -> Choices:
    """Programs of calls of this operator alone."""
    return Choices(name="mutant", operators=frozenset({op}), forms={"operator": 1.0})


def delete(mutant: Mutant) -> Mutant | None:
    """A binding gives way to a value of its type that is there before it."""
    for at, binding in _places(mutant):
        told = mutant.tensor(binding.name)
        if told is None or binding.op == "alias":
            continue
        names = [item.name for item in mutant.program.main.inputs] + [
            each.name for each in mutant.bindings[:at]
        ]
        same = [name for name in names if mutant.tensor(name) == told]
        if same:
            rest = (_alias(binding, mutant.draws.pick(same)), *mutant.bindings[at + 1 :])
            return mutant.with_bindings((*mutant.bindings[:at], *rest))
    return None


def restructure(mutant: Mutant) -> Mutant | None:
    """A run of bindings becomes a function, a closure, or a closure that a function returns (HirFuzz)."""
    draws, known = mutant.draws, mutant.learned.types
    types = {
        name: (told.dtype, tuple(int(dim) for dim in told.shape))
        for name, told in known.items()
        if isinstance(told, Tensor)
        and told.is_static
        and draws.chance(0.8)  # so that other runs than the longest move
    }
    rewrite = draws.pick(tuple(GRAPH_REWRITES.values()))
    found = rewrite(mutant.program, types)
    return None if found is None else replace(mutant, program=found)


def regroup(mutant: Mutant) -> Mutant | None:
    """The bindings stand in other dataflow blocks."""
    plain = [
        replace(each, kwargs={key: item for key, item in each.kwargs.items() if key != BLOCK})
        for each in mutant.bindings
    ]
    graph = graph_to_json(replace(mutant.program.main, bindings=tuple(plain)))
    found = graph_of_json(in_blocks(mutant.draws, mutant.draws.pick((0.0, 0.5, 1.0)))(graph)).bindings
    return mutant.with_bindings(found) if found != mutant.bindings else None


MUTATIONS: tuple[Mutation, ...] = (insert, substitute, redraw, delete, restructure, regroup)


def mutated(
    program: GraphProgram,
    inputs: Mapping[str, Array],
    types: Mapping[str, Type],
    draws: RandomSource,
    budget: Budget = UNLIMITED,
) -> RelaxProgram:
    """The program after one to four changes; one that no change fits comes back as it was."""
    mutant = _begun(Mutant(program, inputs, types, draws, budget))
    for _ in range(draws.between(1, 4) if mutant else 0):
        for mutation in draws.sample(MUTATIONS, len(MUTATIONS)):
            found = mutation(mutant) if mutant else None
            if found is not None and mutant is not None and found.is_sound(mutant):
                mutant = found
                break
    if mutant is None:
        return RelaxProgram(program, inputs, types)
    return RelaxProgram(mutant.program, mutant.inputs, mutant.given)


def runs(mutant: Mutant) -> bool:
    """Whether its values can be computed, none of them too large."""
    try:
        return bool(mutant.learned.values)
    except Unsound:
        return False


def _begun(mutant: Mutant) -> Mutant | None:
    """The program as it is, with room for values as large as its own; None if it cannot be run at all."""
    for most in (MOST_FLOAT, 1e30):
        found = replace(mutant, most=most)
        if runs(found):
            return found
    return None
