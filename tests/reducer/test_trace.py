"""Which nodes of an original are left is told by the names of what they compute, through renaming."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from oracles.judge import Judge
from reducer.moves.names import renamed
from reducer.result import kept_nodes
from reducer.subject.onnx.nodesets import keep_nodes
from reducer.subject.onnx.subject import OnnxSubject
from tests.reducer.driving import ORT, case_of, drive, find_move, model_of, subject_of

Learned = Callable[[str], OnnxSubject]

CHAIN = "g (float[2] x) => (float[2] e) { a = Neg(x) b = Abs(a) c = Exp(b) d = Neg(c) e = Abs(d) }"
BRANCHES = """g (float[2] x, bool i) => (float[2] z) {
    a = Neg(x)
    y = If(i) <
        then_branch = t () => (float[2] r) { q = Abs(a) r = Exp(q) },
        else_branch = e () => (float[2] s) { q = Exp(a) s = Abs(q) }
    >
    z = Neg(y)
}"""


@pytest.fixture(scope="module")
def learned() -> Iterator[Callable[[str], OnnxSubject]]:
    """Subjects from text, with the value of every tensor."""
    with Judge(ORT) as judge:
        yield lambda text: subject_of(judge, case_of(model_of(text)))


@pytest.mark.parametrize("keep", [{0, 1, 2, 3, 4}, {1, 2}, {3}])
def test_nodes_are_traced_through_cuts_and_renaming(keep: set[int], learned: Learned) -> None:
    original = learned(CHAIN)
    cut = keep_nodes(original, frozenset(keep))
    assert cut is not None
    assert kept_nodes(original.model, cut) == tuple(sorted(keep))
    assert kept_nodes(original.model, renamed(cut)) == tuple(sorted(keep))


def test_nodes_are_traced_through_a_second_renaming(learned: Learned) -> None:
    original = learned(CHAIN)
    first = renamed(original)
    cut = keep_nodes(first, frozenset({2, 3}))
    assert cut is not None
    assert kept_nodes(original.model, renamed(cut)) == (2, 3)


def test_a_node_in_a_body_counts_for_the_node_that_holds_it(learned: Learned) -> None:
    original = learned(BRANCHES)
    cut = keep_nodes(original, frozenset({1}))
    assert cut is not None
    assert kept_nodes(original.model, cut) == (1,)


def test_what_was_unfolded_counts_for_the_node_that_held_it(learned: Learned) -> None:
    original = learned(BRANCHES)
    unfolded = drive(find_move("unfold control flow"), original, lambda model, inputs: True).subject
    assert all(node.op_type != "If" for node in unfolded.nodes)
    assert kept_nodes(original.model, renamed(unfolded)) == (0, 1, 2)


def test_a_tensor_that_came_later_is_of_no_node(learned: Learned) -> None:
    original = learned(CHAIN)
    made = learned("g (float[2] x) => (float[2] new) { new = Neg(x) }")
    assert kept_nodes(original.model, made) == ()
