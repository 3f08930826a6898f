"""A result that every run of a program of loops gets wrong alike is told against the interpreter's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from corpus.case import Case
from corpus.target import Target
from corpus.tir.document import to_bytes
from corpus.tir.tree import Function, Module, Store
from corpus.tir.values import Binary, Buffer, Const, Load
from oracles.numerics.compare import Tolerance
from oracles.probes.tir_context import INTERPRETER
from oracles.run import Config, Phase, Run, Status
from oracles.verdict import Outcome, Symptom, Verdict, WrongResult
from triage.claims.claim import expect
from triage.claims.titles import whose
from triage.language import language_of
from triage.projects import project_of

A = Buffer("A", (Const(1),), "int32")
BODY = (Store("A", (Const(0),), Binary("add", Load("A", (Const(0),), "int32"), Const(1))),)
CASE = Case(
    "tir",
    to_bytes(Module({"main": Function((A,), BODY)})),
    {"A": np.array([6], np.int32)},
    Target("tvm"),
)
RUN = Run(Config("least -O0"), Status.OK, Phase.EXECUTE, outputs={"A": np.array([8], np.int32)})
VERDICT = Verdict(
    Outcome.MISMATCH,
    Phase.COMPARE,
    "wrong value",
    Symptom(Outcome.MISMATCH, Phase.COMPARE, "value"),
    (RUN,),
    wrong=WrongResult("A", "un-optimised", "off by one", 1.0, INTERPRETER),
)


def test_the_interpreters_result_is_what_a_script_compares_with() -> None:
    told = language_of("tir").interpreted(CASE, VERDICT)
    found = expect(VERDICT, Tolerance(), project_of("tvm"), told=told)
    assert found.failing is RUN
    assert found.passing is not None
    assert found.passing.outputs["A"].tolist() == [7]
    assert whose(found.passing.config) == "an interpreter of the loops in Python"


def test_where_runs_differ_they_are_told_against_each_other() -> None:
    assert language_of("tir").interpreted(CASE, replace(VERDICT, runs=(RUN, RUN))) is None


def test_what_is_not_defined_throughout_is_not_told() -> None:
    wild = (*BODY, Store("A", (Const(0),), Binary("shl", Const(1), Const(40))))
    case = replace(CASE, program=to_bytes(Module({"main": Function((A,), wild)})))
    assert language_of("tir").interpreted(case, VERDICT) is None
