"""Programs around optimisation patterns: each holds one or more graphs on which a compiler's pass fires.

OATest (§3.2, §3.3): a pattern is joined to a graph that has grown, and more follow in what has become of it.
`--from` names a folder of patterns; without it they are those that are shipped.

`high_order` (§3.3) puts patterns in what patterns have become: programs that ran and triggered their passes
are contexts of others. A campaign (`fuzz`, `hunt`) keeps those on which passes fired together for the first
time; where nothing is known yet programs are as those of `patterns`, of the shipped ones. Sizes are drawn
from bins between powers of two, as the solver's are (NNSmith).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from corpus.errors import UserError
from corpus.pattern import FOLDER, load_patterns
from generators.feedback import CoverageSnapshot
from generators.growth.grow import Program, begin, finish, grow_to, leaning_choice
from generators.growth.steps import new_scope
from generators.language.profile import UNLIMITED, Budget, draw_profile, with_binned_dims
from generators.language.values import RandomSource
from generators.patterns import (
    Hidden,
    Recipe,
    bred_of,
    further_nodes,
    is_sound,
    leaning_dtypes,
    place_recipe,
    recipe_of,
    seeds_of,
)
from generators.strategies import untaught

_MORE = 0.45
"""How often it is another pattern's turn and not an operator's."""
_MOSTLY = 0.85
"""How often it is, where patterns are put into a program that holds some."""
_TRIES = 4

Recipes = Mapping[str, Sequence[Recipe]]
"""By pass: each pass is as likely as any other, however many patterns it has."""


def programs(seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget) -> Iterator[Program]:
    """One program a seed, with a pattern wherever one has room."""
    yield from around(_recipes(source or FOLDER), seeds, nodes, budget)


def around(
    recipes: Recipes, seeds: Sequence[int], nodes: int, budget: Budget = UNLIMITED, more: float = _MORE
) -> Iterator[Program]:
    """Yield one program a seed, grown around these patterns; without `more` it holds one of them."""
    for seed in seeds:
        draws = RandomSource(f"patterns/{seed}/{nodes}")
        yield _Growth(draws, nodes, recipes, budget, more).program()


@cache
def _recipes(folder: Path) -> Recipes:
    found: dict[str, list[Recipe]] = {}
    for pattern in load_patterns(folder):
        recipe = recipe_of(pattern)
        if recipe is not None and (folder == FOLDER or is_sound(recipe)):
            found.setdefault(recipe.fires, []).append(recipe)
    if not found:
        raise UserError(f"{folder}: none of its patterns is made of operators that programs are made of")
    return dict(sorted(found.items()))


def grown_on(seeds: Sequence[int], nodes: int, further: int, budget: Budget = UNLIMITED) -> Program:
    """The program of the first seed, into which each further one puts `further` nodes."""
    recipes = _recipes(FOLDER)
    draws = RandomSource(f"high order/{seeds[0]}/{nodes}")
    growth = _Growth(draws, nodes, recipes, budget, _MORE, is_binned=True)
    for at, seed in enumerate(seeds[1:], 1):
        growth.scope.draws = RandomSource(f"patterns/on/{seed}")
        growth.go_on(nodes + at * further, _MOSTLY)
    return growth.program()


class _Growth:
    """A program under growth around patterns: the first one comes early, then others and operators."""

    def __init__(
        self,
        draws: RandomSource,
        nodes: int,
        recipes: Recipes,
        budget: Budget,
        more: float,
        *,
        is_binned: bool = False,
    ) -> None:
        self.recipes = recipes
        self.fires: dict[str, None] = {}
        profile = draw_profile(draws, budget)
        profile = with_binned_dims(draws, profile) if is_binned else profile
        first = _drawn(draws, recipes, nodes, None)
        if first is not None:
            dtypes = leaning_dtypes(draws, first, profile.dtypes)
            profile = replace(profile, dtypes=dtypes, opset=draws.between(*first.opsets))
        self.scope, self.hidden = new_scope(draws, profile), Hidden()
        self.choose = leaning_choice(draws)
        begin(self.scope)
        if first is not None:
            grow_to(self.scope, self.choose, draws.below(nodes - first.nodes + 1) // 2)
            if place_recipe(self.scope, first, nodes - len(self.scope.nodes), self.hidden):
                self.fires[first.fires] = None
        self.go_on(nodes, more)

    def go_on(self, nodes: int, more: float) -> None:
        """Grow to so many nodes, by a pattern as often as `more` says."""
        scope, draws = self.scope, self.scope.draws
        while len(scope.nodes) < nodes:
            before = len(scope.nodes)
            if draws.chance(more):
                recipe = _drawn(draws, self.recipes, nodes - before, scope.opset)
                if recipe is not None and place_recipe(scope, recipe, nodes - before, self.hidden):
                    self.fires[recipe.fires] = None
                    continue
            grow_to(scope, self.choose, before + 1)
            if len(scope.nodes) == before:
                return  # the budget is spent

    def program(self) -> Program:
        """The program as it is now."""
        self.scope.pool.extend(self.hidden)
        return replace(finish(self.scope), fires=tuple(self.fires))


def _drawn(draws: RandomSource, recipes: Recipes, room: int, opset: int | None) -> Recipe | None:
    """A pattern of any pass that has room and is of this opset; None where no try meets one."""
    passes = list(recipes)
    for _ in range(_TRIES):
        recipe = draws.pick(recipes[draws.pick(passes)])
        if recipe.nodes <= room and (opset is None or recipe.opsets[0] <= opset <= recipe.opsets[1]):
            return recipe
    return None


def high_order(
    seeds: Sequence[int], nodes: int, lesson: CoverageSnapshot, budget: Budget
) -> Iterator[Program]:
    """Yield a program a seed, in a context that the campaign knows."""
    for seed in seeds:
        bred = bred_of(seed, lesson.pool, "high_order")
        made = grown_on(seeds_of(bred), nodes, further_nodes(nodes), budget)
        yield replace(made, bred=bred)


STRATEGIES = {"patterns": programs, "high_order": untaught(high_order)}
TAUGHT = {"high_order": high_order}
