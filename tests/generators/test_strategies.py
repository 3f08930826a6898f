"""What holds for the programs of every strategy, and what each is for."""

import math
from collections import Counter
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
import pytest

from corpus.case import Case, Remark
from corpus.errors import UserError
from corpus.onnx.check import checker_complaint
from corpus.onnx.graph import walk_nodes
from generators import Options, generate
from generators.feedback import BLOCK
from generators.growth.grow import begin, grow, grow_to, leaning_choice
from generators.language.profile import UNLIMITED, Budget, bytes_of, draw_profile, seconds_of
from generators.language.values import RandomSource
from generators.mixture import COVERAGE_FILE, Plan, make_cases
from generators.modes import Mode, in_mode
from generators.strategies import coverage, find_strategy, strategies
from generators.strategies.backward import BackwardScope, grow_before
from generators.strategies.coverage import Seen
from generators.strategies.mutate import MUTATIONS, Mutant
from oracles.operators import arithmetic_of
from oracles.relation.program import DTypeFamily
from tests.helpers.models import contents, model_of

needs_z3 = pytest.mark.skipif(find_spec("z3") is None, reason="z3 is not installed")
STRATEGIES = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=needs_z3) if name == "smt" else name
        for name in strategies()
        if not name.startswith("relax") and name != "tir"
    ],
)


def test_an_unknown_strategy_is_refused_with_those_that_there_are():
    with pytest.raises(UserError, match=f"there is {', '.join(strategies())}"):
        find_strategy("sideways")


@STRATEGIES
def test_the_checker_accepts_every_program(name):
    for program in find_strategy(name)(range(40), 10, None, UNLIMITED):
        assert checker_complaint(program.model) is None
        assert {info.name for info in program.model.graph.input} == set(program.inputs)


@pytest.mark.parametrize(
    "name", ["coverage", "mutate", pytest.param("smt", marks=needs_z3)]
)  # one learns on its way, one starts from others, one solves
def test_two_processes_write_what_one_writes(name, tmp_path):
    options = Options(name)
    one = generate(tmp_path / "one", 40, 5, options=options)
    two = generate(tmp_path / "two", 40, 5, options=options, jobs=2)
    assert one.counts == two.counts
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_guided_programs_cover_more_than_unguided_ones():
    """HirFuzz's score (§5.5): every piece of coverage is worth one."""
    scores = {}
    for name in ("coverage", "random"):
        seen = Seen()
        for program in find_strategy(name)(range(30), 50, None, UNLIMITED):
            seen.add(program)
        scores[name] = seen.pieces
    assert scores["coverage"] > 1.1 * scores["random"]


def test_coverage_is_saved_and_goes_on_from_there(tmp_path):
    generate(tmp_path / "first", 20, 5, options=Options("coverage"))
    saved = tmp_path / "first" / COVERAGE_FILE
    generate(tmp_path / "second", 20, 5, options=Options("coverage", saved))
    again = Seen.load(tmp_path / "second" / COVERAGE_FILE).total()
    assert all(again[key] >= number for key, number in Seen.load(saved).total().items())
    fresh = Case.load(tmp_path / "first" / "seed-3").case_id
    assert Case.load(tmp_path / "second" / "seed-3").case_id != fresh


def test_a_file_that_holds_no_coverage_is_refused(tmp_path):
    (tmp_path / "broken.json").write_text("[1")
    with pytest.raises(UserError, match="name coverage that was saved"):
        next(find_strategy("coverage")(range(1), 3, tmp_path / "broken.json", UNLIMITED))


@pytest.mark.parametrize("nodes", [1, 12, 40])
@pytest.mark.parametrize("name", ["random", "backward", "coverage"])
def test_a_program_has_as_many_nodes_as_were_asked_for(name, nodes):
    for program in find_strategy(name)(range(10), nodes, None, UNLIMITED):
        assert sum(node.op_type != "Constant" for node in program.model.graph.node) == nodes


def test_backward_also_grows_before_an_input_that_others_read():
    """NNSmith's backward insertion: what is new stands before the old nodes, and takes the input's place."""
    grown = 0
    for seed in range(50):
        draws = RandomSource(f"before/{seed}")
        scope = BackwardScope(draws, draw_profile(draws), 3)
        begin(scope)
        grow_to(scope, leaning_choice(draws), 3)
        old, inputs = list(scope.nodes), [operand.name for operand, _ in scope.inputs]
        scope.fuel = 2
        if not grow_before(scope):
            continue
        grown += 1
        assert [node.op for node in scope.nodes[-len(old) :]] == [node.op for node in old]
        assert len(set(inputs) - {operand.name for operand, _ in scope.inputs}) == 1
    assert grown >= 10


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
def test_each_mutation_changes_some_model_and_keeps_it_valid(mutation):
    changed = 0
    for seed in range(30):
        program = grow(seed, 8)
        mutant = Mutant(program.model, RandomSource(str(seed)))
        if mutation(mutant):
            del mutant.graph.value_info[:]
            assert checker_complaint(mutant.model) is None
            changed += mutant.model.SerializeToString() != program.model.SerializeToString()
    assert changed >= 5


def test_a_users_model_is_mutated(tmp_path):
    model = model_of("g (float[2,3] x) => (float[2,3] y) { a = Relu(x) b = Tanh(a) y = Add(a, b) }")
    onnx.save(model, tmp_path / "model.onnx")
    found = list(find_strategy("mutate")(range(20), 10, tmp_path / "model.onnx", UNLIMITED))
    assert len({program.model.SerializeToString() for program in found}) >= 15
    for program in found:
        assert checker_complaint(program.model) is None
        assert [info.name for info in program.model.graph.output] == ["y"]


KINDS = {"dtype", "shape", "rank", "attribute", "arity", "cycle", "dangling name", "opset"}


def test_a_disruptive_program_has_one_violation_that_its_notes_name_and_the_checker_finds():
    """But for values of attributes and operands of some operators, of which the checker knows little."""
    kinds: Counter[str] = Counter()
    for seed in range(200):
        case = in_mode(Mode.DISRUPTIVE, seed, grow(seed, 8, frozenset({DTypeFamily.CONTRIB})))
        if not case.notes:
            continue
        (note,) = case.notes
        kind = note.split(": ")[1]
        kinds[kind] += 1
        complaint = checker_complaint(onnx.ModelProto.FromString(case.program))
        assert kind in ("attribute", "rank", "shape") or complaint is not None, note
    assert set(kinds) == KINDS
    assert kinds.total() >= 180


@pytest.mark.parametrize("plan", [Plan(nodes=1), Plan(nodes=1, dialect="aten")], ids=["onnx", "aten"])
def test_every_disruptive_program_of_a_mixture_has_a_violation(plan):
    """Also where all operators are com.microsoft's or torch's own, of which ONNX has no schema."""
    disruptive = replace(plan, mode=Mode.DISRUPTIVE, strategy="mixed")
    foreign = 0
    for case in make_cases(disruptive, range(20 * BLOCK)):
        assert case.remarks(Remark.VIOLATION), case.origin
        nodes = onnx.ModelProto.FromString(case.program).graph.node
        foreign += all(node.domain for node in nodes if node.op_type != "Constant")
    assert foreign > 5


def test_nan_and_infinity_enter_an_operator_that_defines_what_it_makes_of_them():
    changed = 0
    for seed in range(200):
        program = grow(seed, 8)
        case = in_mode(Mode.NONFINITE, seed, program)
        assert case.program == program.model.SerializeToString(deterministic=True)
        given = program.inputs
        special = {name for name, value in case.inputs.items() if not np.array_equal(value, given[name])}
        changed += len(special)
        for name in special:
            differs = case.inputs[name] != given[name]
            assert not np.isfinite(case.inputs[name][differs]).any()
        readers = [node for node in program.model.graph.node if special & set(node.input)]
        assert not special or any(arithmetic_of(node).defines_nonfinite for node in readers)
    assert changed > 40


def spent(program) -> dict[str, int]:
    """Arithmetic is counted anew, for the operators of which the cost is plain; so are chains."""
    types, depths = program.types, dict[str, int]()
    flops = 0
    for node in program.model.graph.node:
        made = math.prod(types[node.output[0]].shape) if node.output[0] in types else 0
        is_product = node.op_type == "MatMul"
        flops += 2 * made * types[node.input[0]].shape[-1] if is_product else 0 if node.domain else made
        longest = max((depths.get(each, 0) for each in node.input), default=0)
        depths.update(dict.fromkeys(node.output, longest + (node.op_type != "Constant")))
    return {
        "flops": flops,
        "memory": sum(bytes_of(*one) for one in types.values()),
        "dim": max((max(one.shape, default=0) for one in types.values()), default=0),
        "depth": max(depths.values(), default=0),
    }


@pytest.mark.parametrize("name", ["random", "backward", "uniform", "mutate"])
@pytest.mark.parametrize(("what", "most"), [("flops", 400), ("memory", 6_000), ("dim", 9), ("depth", 3)])
def test_a_program_never_exceeds_its_budget(name, what, most):
    found = [spent(each)[what] for each in find_strategy(name)(range(16), 9, None, Budget(**{what: most}))]
    assert most / 12 < max(found) <= most


@pytest.mark.parametrize("name", ["random", "backward", "uniform", "mutate"])
def test_a_budget_bounds_the_time_of_a_run(name):
    """A body's nodes count once here, so that this is a lower bound."""
    for program in find_strategy(name)(range(4), 10, None, Budget(seconds=1e-4)):
        count = sum(node.op_type != "Constant" for node in walk_nodes(program.model.graph))
        assert 0 < seconds_of(0, spent(program)["memory"], count) <= 1e-4


def test_some_inputs_have_dims_with_names_that_fit_their_values():
    named = 0
    for seed in range(150):
        program = grow(seed, 8)
        sizes: dict[str, int] = {}
        for info in program.model.graph.input:
            shape = program.types[info.name].shape
            for dim, size in zip(info.type.tensor_type.shape.dim, shape, strict=False):
                if dim.HasField("dim_param"):
                    assert sizes.setdefault(dim.dim_param, size) == size
        named += bool(sizes)
    assert named >= 5


def test_the_strategy_that_the_documents_show_runs(tmp_path):
    shown = (Path(__file__).parents[2] / "docs/own-backend.md").read_text()
    (block,) = (part for part in shown.split("```python\n") if "def programs(" in part)
    (tmp_path / "mine.py").write_text(block.partition("```")[0])
    name = f"{tmp_path}/mine.py:programs"
    generated = generate(tmp_path / "out", 12, 6, options=Options(name, trust=True), jobs=2)
    assert generated.counts.models == 12
    with pytest.raises(UserError, match="give --trust"):
        generate(tmp_path / "other", 2, 5, options=Options(name))
    with pytest.raises(UserError, match="has no function growth"):
        find_strategy(f"{tmp_path}/mine.py:growth", trust=True)
    with pytest.raises(UserError, match="no Python file"):
        find_strategy(f"{tmp_path}/yours.py", trust=True)


@needs_z3
def test_the_solver_finds_sizes_from_every_bin_for_operators_that_belong_together():
    dims, operators = set[int](), set[str]()
    for program in find_strategy("smt")(range(40), 10, None, UNLIMITED):
        for info in program.model.graph.input:
            dims.update(program.types[info.name].shape)
        operators.update(node.op_type for node in program.model.graph.node)
    assert {"MatMul", "Concat", "Split", "Reshape", "Conv"} <= operators
    assert len(operators) >= 90
    for low, high in ((1, 1), (2, 3), (4, 7), (8, 15), (16, 31), (32, 2048)):
        assert any(low <= dim <= high for dim in dims), (low, high)


def test_without_the_solver_the_strategy_says_what_to_install(monkeypatch):
    monkeypatch.setattr("generators.strategies.fresh.find_spec", lambda name: None)
    with pytest.raises(UserError, match="z3 is not installed"):
        next(find_strategy("smt")(range(1), 5, None, UNLIMITED))


def test_a_guided_program_of_which_every_step_was_taken_back_still_has_a_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coverage, "_grow", lambda *arguments: None)
    for seed in range(20):
        assert coverage.guided(seed, 10, coverage.Seen()).model.graph.node
