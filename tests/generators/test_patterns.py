"""Programs around patterns: each holds one, still fires its pass, and is valid."""

from collections import Counter

import pytest

from corpus.errors import UserError
from corpus.pattern import FOLDER, load_patterns
from corpus.target import Target
from generators.growth.fragments import new_scope
from generators.growth.grow import finish
from generators.language.profile import UNLIMITED, draw_profile
from generators.language.scope import Scope
from generators.language.values import RandomSource
from generators.patterns import Hidden, place_recipe, recipe_of
from generators.strategies import find_strategy
from oracles.backends import find_backend
from oracles.probes.record import Firing
from oracles.sandbox.sandbox import Job, Sandbox


def scope_of(seed: str) -> Scope:
    draws = RandomSource(seed)
    return new_scope(draws, draw_profile(draws))


def test_a_pattern_takes_values_that_are_there_and_hides_its_own_or_not():
    recipes = [recipe for pattern in load_patterns(FOLDER) if (recipe := recipe_of(pattern))]
    taken = hidden = 0
    for number, recipe in enumerate(recipes):
        scope, kept = scope_of(f"place {number}"), Hidden()
        (slot, *_) = [slot for slot in recipe.slots if not slot.steers]
        dims = tuple(dim if isinstance(dim, int) else recipe.least[dim] for dim in slot.dims)
        value = scope.create(slot.dtype, dims, slot.within, as_input=True)
        scope.opset = recipe.opsets[1]
        assert place_recipe(scope, recipe, recipe.nodes, kept)
        taken += any(value.name in node.operands for node in scope.nodes)
        hidden += bool(kept)
        assert len(scope.nodes) == recipe.nodes
    assert taken > 0.6 * len(recipes)
    assert 0.5 * len(recipes) < hidden < len(recipes)


def test_passes_fire_on_programs_around_patterns_that_run():
    programs = list(find_strategy("patterns")(range(60), 10, None, UNLIMITED))
    passes: Counter[str] = Counter()
    ran = placed = fired = 0
    with Firing(Target("ort")) as firing, Sandbox("ort") as sandbox:
        config = find_backend("ort").configs(Target("ort"))[:1]
        for seed, program in enumerate(programs):
            case = program.as_case(seed)
            found = firing.passes(case.program)
            passes.update(found)
            placed += len(program.fires)
            fired += sum(name in found or firing.fires(case.program, name) for name in program.fires)
            ran += sandbox.run(Job(case.program, case.inputs, config))[0].is_ok
    assert placed > len(programs)
    assert fired > 0.88 * placed
    assert len(passes) > 20
    assert ran >= 0.95 * len(programs)


def test_shipped_patterns_make_sixty_passes_fire_and_each_is_there_once():
    shipped = list(load_patterns(FOLDER))
    assert len({pattern.fires for pattern in shipped}) >= 60
    assert len({pattern.digest for pattern in shipped}) == len(shipped)
    assert all(recipe_of(pattern) for pattern in shipped)


def test_what_a_pattern_computes_within_is_no_output_unless_it_was_opened():
    recipe = next(
        found for pattern in load_patterns(FOLDER) if (found := recipe_of(pattern)) and found.nodes > 4
    )
    for seed in range(40):
        scope, kept = scope_of(f"enclosed {seed}"), Hidden()
        scope.opset = recipe.opsets[1]
        if place_recipe(scope, recipe, recipe.nodes, kept) and kept:
            scope.pool.extend(kept)
            outputs = {value.name for value in finish(scope).model.graph.output}
            assert not outputs & {value.name for value in kept}


def test_a_folder_without_usable_patterns_is_refused(tmp_path):
    with pytest.raises(UserError, match="holds no patterns"):
        next(find_strategy("patterns")(range(1), 5, tmp_path, UNLIMITED))
