"""Laws of reducing, over random models and random predicates."""

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpus.case import Case
from corpus.formats.onnx import parse
from corpus.onnx.check import checker_complaint
from generators import make_case
from oracles.judge import Judge
from oracles.probes.record import Recording
from reducer.engine.journal import Answer
from reducer.engine.rounds import Engine
from reducer.moves import all_moves
from reducer.subject.onnx.divergence import learn
from reducer.subject.onnx.subject import OnnxSubject
from reducer.subject.order import size
from tests.reducer.driving import (
    OPSETS,
    case_of,
    drive,
    engine_for,
    find_move,
    graph_text,
    has,
    model_of,
    operators,
    run_to_end,
    subject_of,
)

NODE_SET_MOVES = [
    move for move in all_moves(OnnxSubject) if "nodes" in move.name or "operator types" in move.name
]
IsInteresting = Callable[[Case], bool]

few = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])


def test_what_flowed_counts_where_a_kernel_does_not_keep_to_its_specification(judge):
    """As onnxruntime's reductions of empty tensors do not."""
    like = case_of(model_of("g (float[3] x) => (float[3] y) { a = Neg (x) y = Erf (a) }"))
    other = {**subject_of(judge, like).facts.values, "a": np.zeros(7, np.float32)}
    learned, _ = learn(subject_of(judge, like), lambda case: Recording(other, None, True), like)
    driven = drive(find_move("drop single nodes by cut"), learned, lambda model, inputs: False)
    inputs = [info for each in driven.candidates for info in each.model.graph.input if info.name == "a"]
    assert [dim.dim_value for info in inputs for dim in info.type.tensor_type.shape.dim] == [7]


def test_every_subset_of_nodes_is_valid_and_runs_un_optimised(judge):
    chance = random.Random(0)
    for seed in range(8):
        subject = subject_of(judge, make_case(100 + seed, 10))
        for move in NODE_SET_MOVES:
            for candidate in drive(move, subject, lambda model, inputs: chance.random() < 0.5).candidates:
                assert checker_complaint(candidate.model) is None, (move.name, graph_text(candidate.model))
                run = judge.runs(candidate.case(case_of(subject.model)), judge.configs[:1])[0]
                assert run.is_ok, (move.name, run.message, graph_text(candidate.model))


@st.composite
def predicates(draw: st.DrawFn, model: onnx.ModelProto) -> IsInteresting:
    """Some operators of the model, perhaps one feeding another, perhaps not for some numbers of nodes."""
    wanted = draw(st.lists(st.sampled_from(sorted(set(operators(model)))), min_size=1, max_size=3))
    edges = sorted(_edges(model))
    edge = draw(st.none() | st.sampled_from(edges)) if edges else None
    luck = draw(st.sampled_from([0, 0, 3, 10]))
    own = case_of(model, {}).canonical_hash[:2]

    def is_interesting(case: Case) -> bool:
        program = parse(case.program)
        fits = has(*wanted)(program) and (edge is None or edge in _edges(program))
        return fits and (not luck or len(program.graph.node) % luck != 1 or case.canonical_hash[:2] == own)

    return is_interesting


def _edges(model: onnx.ModelProto) -> set[tuple[str, str]]:
    made = {name: node.op_type for node in model.graph.node for name in node.output if name}
    return {(made[name], node.op_type) for node in model.graph.node for name in node.input if name in made}


def _reduce(
    judge: Judge, case: Case, is_interesting: IsInteresting, jobs: int = 1, *, thorough: bool = False
) -> tuple[Engine, OnnxSubject]:
    """Under the law that no candidate is asked twice, and none that the checker rejects."""
    asked: list[Case] = []

    def predicate(each: Case) -> Answer:
        asked.append(each)
        return Answer(is_interesting(each))

    with engine_for(judge, case, predicate, jobs) as engine:
        engine.hints = replace(engine.hints, is_thorough=thorough)
        found = run_to_end(engine, subject_of(judge, case))
    assert len({each.case_id for each in asked}) == len(asked)
    assert jobs > 1 or len(asked) == engine.gate.decider.checks
    assert {checker_complaint(parse(each.program)) for each in asked} <= {None}
    return engine, found


@few
@given(data=st.data(), seed=st.integers(0, 10_000))
def test_no_candidate_is_asked_twice_the_result_is_never_larger_and_reducing_it_again_changes_nothing(
    judge, data, seed
):
    """Without bounds: a move that was not asked to its end, as a result then says, may find more later."""
    case = make_case(seed, 12)
    start = subject_of(judge, case)
    is_interesting = data.draw(predicates(start.model).filter(lambda found: found(case)))
    bounded_engine, bounded = _reduce(judge, case, is_interesting)
    assert is_interesting(bounded.case(case))
    assert size(bounded) <= size(start)
    assert bounded_engine.is_minimal
    engine, result = _reduce(judge, case, is_interesting, thorough=True)
    reduced = result.case(case)
    assert is_interesting(reduced)
    assert checker_complaint(result.model) is None
    assert size(result) <= size(start)
    assert engine.is_minimal
    assert not engine.cut_short
    again, same = _reduce(judge, reduced, is_interesting, thorough=True)
    assert graph_text(same.model) == graph_text(result.model)
    assert same.case(case).case_id == reduced.case_id
    assert not again.steps


@settings(few, max_examples=4)
@given(data=st.data(), seed=st.integers(0, 10_000))
def test_any_number_of_workers_gives_the_same_result_checks_and_answers(judge, data, seed):
    case = make_case(seed, 12)
    is_interesting = data.draw(predicates(parse(case.program)).filter(lambda found: found(case)))
    outcomes = []
    for jobs in (1, 2, 4):
        engine, result = _reduce(judge, case, is_interesting, jobs)
        gate, decider = engine.gate, engine.gate.decider
        answers = list(gate.committed.items()), gate.last_accepted, gate.cached
        outcomes.append((result.case(case).case_id, decider.checks, decider.used, answers, engine.steps))
    assert outcomes == [outcomes[0]] * 3


PLANTED = {
    "a node above": "g (float[1] x) => (float[1] y) { a = Neg (x) y = Erf (a) }",
    "a node below": "g (float[1] x) => (float[1] y) { a = Erf (x) y = Neg (a) }",
    "a body": "g (float[1] x, bool c) => (float[1] y) { y = If (c) <"
    "then_branch = t () => (float[1] p) { p = Erf (x) },"
    "else_branch = e () => (float[1] q) { q = Neg (x) }> }",
    "a dim": "g (float[2] x) => (float[2] y) { y = Erf (x) }",
    "an input": "g (float[1] x, float[1] z) => (float[1] y) { y = Erf (x) }",
    "a function": "g (float[1] x) => (float[1] y) { y = local.planted (x) }"
    '<opset_import: ["" : 17], domain: "local"> planted (a) => (b) { b = Erf (a) }',
}
HEADERS = {
    "a newer operator set": '<ir_version: 8, opset_import: ["" : 19]>',
    "an operator set that is not used": '<ir_version: 8, opset_import: ["" : 13, "planted.domain" : 3]>',
    "a function": '<ir_version: 8, opset_import: ["" : 17, "local" : 1]>',
}
ERF = "g (float[1] x) => (float[1] y) { y = Erf (x) }"


@pytest.fixture(scope="module")
def finished(judge: Judge) -> Case:
    """An Erf, reduced as far as it goes."""
    case = case_of(model_of(ERF))
    engine, result = _reduce(judge, case, lambda each: has("Erf")(parse(each.program)))
    assert engine.is_minimal
    return result.case(case)


@pytest.mark.parametrize("planted", dict.fromkeys([*PLANTED, *HEADERS]))
def test_whatever_is_planted_in_a_finished_case_is_removed_again(judge, finished, planted):
    case = case_of(model_of(PLANTED.get(planted, ERF), HEADERS.get(planted, OPSETS)))
    engine, result = _reduce(judge, case, lambda each: has("Erf")(parse(each.program)))
    assert result.case(case).canonical_hash == finished.canonical_hash
    assert engine.is_minimal
    assert engine.steps
