"""Programs around optimisation patterns: each holds one or more graphs on which a compiler's pass fires.

OATest (§3.2, §3.3): a pattern is joined to a graph that has grown, and more follow in what has become of it.
`--from` names a folder of patterns; without it they are those that are shipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from corpus.errors import UserError
from corpus.pattern import FOLDER, load_patterns
from generators.growth.bodies import new_scope
from generators.growth.grow import Program, begin, finish, grow_to, leaning_choice
from generators.language.budget import UNLIMITED, Budget
from generators.language.draws import Draws
from generators.language.temper import draw_temper
from generators.patterns.joining import Hidden, is_sound, leaning_dtypes, place_recipe
from generators.patterns.recipes import Recipe, recipe_of

_MORE = 0.45
"""How often it is another pattern's turn and not an operator's."""
_TRIES = 4

Recipes = Mapping[str, Sequence[Recipe]]
"""By pass: each pass is as likely as any other, however many patterns it has."""


def programs(
    seeds: Sequence[int], nodes: int, source: Path | None, budget: Budget = UNLIMITED
) -> Iterator[Program]:
    """One program a seed, with a pattern wherever one has room."""
    yield from around(_recipes(source or FOLDER), seeds, nodes, budget)


def around(
    recipes: Recipes,
    seeds: Sequence[int],
    nodes: int,
    budget: Budget = UNLIMITED,
    more: float = _MORE,
) -> Iterator[Program]:
    """Yield one program a seed, grown around these patterns; without `more` it holds one of them."""
    for seed in seeds:
        yield _program(Draws(f"patterns/{seed}/{nodes}"), nodes, recipes, budget, more)


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


def _program(draws: Draws, nodes: int, recipes: Recipes, budget: Budget, more: float) -> Program:
    temper = draw_temper(draws, budget)
    first = _drawn(draws, recipes, nodes, None)
    if first is not None:
        dtypes = leaning_dtypes(draws, first, temper.dtypes)
        temper = replace(temper, dtypes=dtypes, opset=draws.between(*first.opsets))
    scope, hidden = new_scope(draws, temper), Hidden()
    fires: dict[str, None] = {}
    choose = leaning_choice(draws)
    begin(scope)
    if first is not None:
        grow_to(scope, choose, draws.below(nodes - first.nodes + 1) // 2)
        if place_recipe(scope, first, nodes - len(scope.nodes), hidden):
            fires[first.fires] = None
    while len(scope.nodes) < nodes:
        before = len(scope.nodes)
        if draws.chance(more):
            recipe = _drawn(draws, recipes, nodes - before, temper.opset)
            if recipe is not None and place_recipe(scope, recipe, nodes - before, hidden):
                fires[recipe.fires] = None
                continue
        grow_to(scope, choose, before + 1)
        if len(scope.nodes) == before:
            break  # the budget is spent
    scope.pool.extend(hidden)
    return replace(finish(scope), fires=tuple(fires))


def _drawn(draws: Draws, recipes: Recipes, room: int, opset: int | None) -> Recipe | None:
    """Return a pattern of any pass that has room and is of this opset; None where no try meets one."""
    passes = list(recipes)
    for _ in range(_TRIES):
        recipe = draws.pick(recipes[draws.pick(passes)])
        if recipe.nodes <= room and (opset is None or recipe.opsets[0] <= opset <= recipe.opsets[1]):
            return recipe
    return None
