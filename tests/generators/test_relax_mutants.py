"""Mutants of Relax programs: still well typed, of finite values, the same for one seed; a user's too."""

from dataclasses import replace

import numpy as np
import pytest

from corpus.case import Case
from corpus.errors import UserError
from corpus.graphs.program import Binding, Graph, GraphProgram, Input
from corpus.tir.scopes import problems
from corpus.tir.tree import Block, Function, Module, Store
from corpus.tir.values import Buffer, Call, Const, Load
from corpus.tir.walk import walk
from generators.language.profile import UNLIMITED
from generators.language.values import RandomSource
from generators.relax.forms.calls import is_sound, primfunc
from generators.relax.mutant import Mutant, learn
from generators.relax.mutations import MUTATIONS, mutated
from generators.relax.operator import Tensor
from generators.relax.programs import make_program
from generators.relax.watched import Unsound, interpreted
from generators.strategies import find_strategy
from oracles.tir.interpreter import called, is_steady
from tests.helpers.models import ref

COUNT = 40


def a_users_program() -> GraphProgram:
    """Symbolic in its batch."""
    told = {"attributes": ["MatmulAttrs", {"out_dtype": "float32"}]}
    bindings = (
        Binding("h1", "relax.matmul", (ref("x"), ref("w")), told),
        Binding("h2", "relax.add", (ref("h1"), ref("b"))),
        Binding("h3", "relax.nn.relu", (ref("h2"),)),
        Binding("s", "relax.exp", (ref("b"),)),
        Binding("h4", "relax.add", (ref("h3"), ref("s"))),
    )
    inputs = (Input("x", "float32", ("n", 4)), Input("w", "float32", (4, 3)), Input("b", "float32", (3,)))
    return GraphProgram("relax", Graph(inputs, bindings, ("h4",), {"pure": True}))


INPUTS = {"x": np.ones((2, 4), "float32"), "w": np.ones((4, 3), "float32"), "b": np.ones(3, "float32")}


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.__name__)
def test_each_change_fits_many_programs(mutation):
    changed = 0
    for seed in range(COUNT):
        made = make_program(seed, 8)
        mutant = Mutant(made.program, made.inputs, made.types, RandomSource(f"{seed}"), UNLIMITED)
        found = mutation(mutant)
        if found is not None and found.is_sound(mutant):
            changed += found.program.to_bytes() != mutant.program.to_bytes()
    assert changed > COUNT // 3


def test_types_that_are_certain_are_those_that_tvm_infers(relax_judge):
    known = 0
    for seed in range(COUNT):
        made = make_program(seed, 10)
        types = relax_judge.executor.describe(made.program.to_bytes(), made.inputs)["types"]
        told = learn(made.program, made.inputs, {}, 1e30).types
        for each in made.program.main.bindings:
            own = told.get(each.name)
            if isinstance(own, Tensor):
                known += 1
                assert [own.dtype, list(own.shape)] == [*types[each.name]][:2], (seed, each)
    assert known > 2 * COUNT


def test_a_users_program_of_symbolic_dims_is_mutated_as_it_is(tmp_path, relax_judge):
    case = Case("relax", a_users_program().to_bytes(), INPUTS)
    case.save(tmp_path / "case")
    seen = set()
    for seed, made in enumerate(find_strategy("mutate")(range(COUNT), 5, tmp_path / "case", UNLIMITED)):
        found = made.as_case(seed)  # type: ignore[union-attr]
        assert [item.name for item in found.parsed.main.inputs][:3] == ["x", "w", "b"]
        assert "error" not in relax_judge.executor.describe(found.program, found.inputs), seed
        seen.add(found.program)
    assert len(seen) > COUNT // 2


def test_what_crux_cannot_compute_stays_as_it_is():
    program = a_users_program()
    unknown = Binding("z", "relax.of.a.user", (ref("h4"),))
    main = replace(program.main, bindings=(*program.main.bindings, unknown), outputs=("z",))
    for seed in range(COUNT):
        found = mutated(replace(program, main=main), INPUTS, {}, RandomSource(f"{seed}"))
        assert "relax.of.a.user" in {each.op for each in found.program.main.bindings}


def test_a_case_of_another_format_is_refused(tmp_path):
    Case("torch", b"", {}).save(tmp_path / "case")
    with pytest.raises(UserError):
        list(find_strategy("relax_mutate")(range(1), 5, tmp_path / "case", UNLIMITED))


# PrimFuncs of loops within Relax programs: what passes take, and what the interpreter says

OPERANDS = [Tensor("float32", (4,)), Tensor("float32", (2, 3))]


def test_most_draws_are_sound_functions_of_blocks_under_one_root():
    drawn = [primfunc(RandomSource(f"{seed}"), OPERANDS, Tensor("float32", (3, 2))) for seed in range(40)]
    made = [each for each in drawn if is_sound(each)]
    assert len(made) >= 20
    for function in made:
        assert not problems(Module({"main": function}))
        (root,) = function.body
        assert isinstance(root, Block)
        assert all(any(isinstance(item, Block) for item in walk(stmt)) for stmt in root.body)
    axes = [axis for each in made for item in walk(each) if isinstance(item, Block) for axis in item.axes]
    assert {axis.kind for axis in axes} == {"spatial", "reduce"}


def test_a_result_that_rounding_decides_is_refused():
    """The floor of an operand that is a whole number but for rounding."""
    at = (Const(0),)
    a, r = (Buffer(name, (Const(1),), "float32") for name in "AR")
    floor = Function((a, r), (Store("R", at, Call("floor", (Load("A", at, "float32"),), "float32")),))
    near, far = np.array([3.0], np.float32), np.array([3.5], np.float32)
    assert is_steady(floor, [far], called(floor, [far]))
    assert not is_steady(floor, [near], called(floor, [near]))
    with pytest.raises(Unsound):
        interpreted(floor)(near)
