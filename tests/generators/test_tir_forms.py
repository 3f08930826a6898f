"""Each form of statement that programs hold: sound as grown, and TVM runs it as the interpreter does."""

import pytest

from corpus.case import Case
from corpus.tir.program import to_bytes
from corpus.tir.scopes import is_well_formed
from corpus.tir.tree import Declare, For, Function, Module, Store, is_jump
from corpus.tir.values import Buffer, Const, Ramp, Var
from corpus.tir.walk import walk
from generators.language.values import RandomSource
from generators.tir import statements
from generators.tir.frame import Known, Names, start_of
from generators.tir.programs import TirProgram, is_sound
from generators.tir.ranged import has_extremes, inputs_of
from generators.tir.statements import Maker
from tests.helpers.wrong_loops import notices

FORMS = {
    "lanes": (statements._lanes, lambda node: isinstance(node, Store) and isinstance(node.indices[-1], Ramp)),
    "views": (statements._view, lambda node: isinstance(node, Declare)),
    "room between elements": (statements._memory, lambda node: isinstance(node, Buffer) and node.strides),
    "jumps": (statements._jump, is_jump),
}
PROGRAMS = 24


def grown_of(name: str, seed: int) -> Module | None:
    """A loop that holds a statement of one form and some others; None where it was not drawn."""
    make, is_one = FORMS[name]
    maker = Maker(RandomSource(f"forms/{name}/{seed}"), Names())
    params = tuple(maker.buffer("A") for _ in range(3))
    frame, loop = start_of(Function(params, ()), extreme=has_extremes(seed)), Var(maker.names.fresh("i"))
    inner = frame.with_loop(Known(loop, 0, 3))
    made = make(maker, inner, 4, 1)
    if made is None:
        return None
    body = (*made[0], maker.store(made[1]), maker.store(inner))
    module = Module({"main": Function(params, (For(loop, Const(0), Const(4), "serial", body),))})
    return module if any(map(is_one, walk(module.main))) else None


def sound_of(name: str) -> list[Case]:
    made = [(seed, grown_of(name, seed)) for seed in range(10 * PROGRAMS)]
    formed = [(seed, each) for seed, each in made if each is not None]
    assert all(is_well_formed(each) for _, each in formed)
    sound = [(seed, each) for seed, each in formed if is_sound(each, seed)]
    assert len(sound) >= 0.8 * len(formed) >= PROGRAMS
    return [Case("tir", to_bytes(each), inputs_of(each, seed)) for seed, each in sound[:PROGRAMS]]


def test_most_views_show_it_if_their_strides_are_dropped():
    """Beyond what is row-major anyway, or read by nobody."""
    views = [(seed, grown_of("views", seed)) for seed in range(24)]
    sound = [(seed, each) for seed, each in views if each is not None and is_sound(each, seed)]
    shown = [notices(TirProgram(each, inputs_of(each, seed)), "strides dropped") for seed, each in sound]
    assert len(sound) >= 16
    assert sum(shown) >= 0.6 * len(shown)


@pytest.mark.parametrize("name", FORMS)
def test_most_programs_of_a_form_are_sound_and_tvm_agrees_with_the_interpreter(tir_judge, name):
    """Its first look runs them together; what is not clean there gets a verdict, and no value is wrong."""
    cases = sound_of(name)
    looks = tir_judge.look(cases)
    rest = [tir_judge.verdict(case) for case, look in zip(cases, looks, strict=True) if look is None]
    assert len(rest) <= 0.2 * len(cases), [each.title for each in rest]
    assert not [each.title for each in rest if "mismatch" in each.outcome]


def test_statements_are_grown_where_no_buffer_can_be_used():
    for seed in range(60):
        maker = Maker(RandomSource(f"forms/none/{seed}"), Names())
        body = maker.body(start_of(Function((), ())), 6)
        assert is_well_formed(Module({"main": Function((), body)}))
