"""What a campaign tests is made of what the target has."""

from dataclasses import replace

from corpus.formats.onnx import parse
from corpus.onnx.graph import walk_nodes
from generators import fuzz
from generators.feedback import MANY_REFUSALS, NOTHING
from generators.language.profile import UNLIMITED
from generators.legality import CALLED, NAMED, Legality, blamed, forms_of, known_refusals
from generators.mixture import PLAN, Plan, make_cases, make_tests
from generators.strategies import find_strategy
from oracles.operators import all_operators
from oracles.verdict import Outcome, Phase, Verdict

FEW = frozenset({"Add", "Mul", "Relu", "Cast", "Abs", "Neg", "Transpose", "Reshape", "Identity", "Concat"})


def operators(program: bytes) -> set[str]:
    return {node.op_type for node in walk_nodes(parse(program).graph)} - {"Constant"}


def test_a_mixture_for_a_small_table_holds_hardly_anything_else():
    table = FEW | {
        "Sub",
        "Div",
        "Max",
        "Min",
        "Sqrt",
        "Exp",
        "Gemm",
        "MatMul",
        "Where",
        "Clip",
        "Slice",
        "Pad",
    }
    plan = replace(PLAN, legality=Legality(table), nodes=2)
    cases = list(make_cases(plan, range(200)))
    fit = sum(operators(case.program) <= table for case in cases)
    free = sum(operators(case.program) <= table for case in make_cases(replace(PLAN, nodes=2), range(200)))
    assert fit > 1.5 * free
    assert fit > 100


def test_a_function_of_the_model_needs_a_target_that_takes_such():
    (program,) = find_strategy("functions")(range(1), 5, None, UNLIMITED)
    names = {node.op_type for node in walk_nodes(program.model.graph)}  # type: ignore[union-attr]
    inside = {node.op_type for one in program.model.functions for node in one.node}  # type: ignore[union-attr]
    assert not Legality(frozenset(names | inside)).allows(program)
    assert Legality(frozenset(names | inside | {CALLED})).allows(program)


def test_without_a_table_every_seed_keeps_its_program():
    plain, bound = PLAN, replace(PLAN, legality=Legality(None, frozenset({"Add(1,1->1)"})))
    ids = [[case.case_id for case in make_cases(plan, range(32))] for plan in (plain, bound)]
    assert ids[0] == ids[1]


def test_a_refusal_counts_against_the_operator_that_it_names():
    forms = ("Add(1,1->1)", "com.microsoft.Gelu(1->1)")
    assert blamed(forms, "operators are not supported: Gelu") == {forms[1]: NAMED}
    assert blamed(forms, "no reason") == {forms[0]: 1, forms[1]: 1}


def test_what_was_refused_often_and_never_ran_is_left_out_from_then_on():
    plan = Plan(
        "random",
        nodes=4,
        legality=Legality(frozenset(each.name for each in all_operators())),
        sequences=False,
    )
    drawn = next(each for each in make_tests(plan, range(64), NOTHING) if each.forms)
    (name, *_) = drawn.forms
    operator = name.partition("(")[0]
    refusal = Verdict(Outcome.UNSUPPORTED, Phase.IMPORT, f"not supported: {operator}")
    tests = [fuzz.Tested(seed, "", refusal, forms=(name,)) for seed in range(MANY_REFUSALS)]
    lesson = fuzz.lesson_of(tests)
    assert name in lesson.refusals()
    again = next(each for each in make_tests(plan, range(drawn.seed, drawn.seed + 1), lesson))
    assert name not in again.forms


def test_forms_tell_element_types():
    (program,) = find_strategy("random")(range(1), 3, None, UNLIMITED)
    assert all("(" in form and "->" in form for form in forms_of(program))
    (loops,) = find_strategy("tir")(range(1), 3, None, UNLIMITED)
    assert forms_of(loops) == ()


def test_a_release_that_nobody_looked_at_refuses_nothing():
    assert known_refusals("apache-tvm", "0.0.0") == frozenset()
