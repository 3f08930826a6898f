"""The least graph that something holds of: only nodes and outputs go, sizes, types and values stay.

A whole reduction would go on to dims of 1 and weights of 0, of which every pass makes something else.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import onnx

from corpus.case import Case
from corpus.formats.onnx import parse
from oracles.judge import Judge
from reducer.engine.decider import Allowance, AllowanceSpent, Decider
from reducer.engine.gate import Gate
from reducer.engine.journal import Answer, Journal
from reducer.engine.predicates import JudgePool
from reducer.engine.rounds import Engine
from reducer.language import language_of
from reducer.move import Hints, Move
from reducer.moves import constants, names, node_sets, outputs, strip

FOLDS = tuple(move for move in constants.MOVES if move.search is constants.fold_nodes)
MOVES: tuple[Move[Any], ...] = tuple(
    sorted(
        (*strip.MOVES, *node_sets.MOVES, *outputs.MOVES, *names.MOVES, *FOLDS),
        key=lambda move: (move.order, move.name),
    )
)

MOST_CHECKS = 200
"""The search ends after this many questions and takes the least graph so far."""


def least_graph(case: Case, holds: Callable[[bytes], bool], judge: Judge) -> onnx.ModelProto | None:
    """The model of the fewest nodes and outputs of the case's that `holds`; None where it does of none.

    The judge's un-optimised configuration tells the value of every tensor, from which those are typed that
    become inputs.
    """
    language = language_of(case.format)
    subject = language.open(case, JudgePool(lambda: judge, judge))
    if not holds(subject.case(case).program):
        return None
    subject, _ = language.learn(subject, judge, case)
    predicate = partial(_answer, holds)
    decider = Decider(predicate, Journal(Path("unused"), {}), Allowance(max_checks=MOST_CHECKS))
    gate = Gate(decider, case, lambda found: found.is_valid)
    engine = Engine(gate, MOVES, Hints(), lambda found: language.learn(found, judge, case)[0])
    with suppress(AllowanceSpent):
        for better in engine.run(subject):
            subject = better
    return parse(subject.case(case).program)


def _answer(holds: Callable[[bytes], bool], case: Case) -> Answer:
    return Answer(holds(case.program))
