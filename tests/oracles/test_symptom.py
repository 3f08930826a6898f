"""Symptoms of runs: what of a crash or an exception the reducer holds on to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oracles.naming.signature import signal_name, symptom_of_run
from oracles.run import Config, Frame, Phase, Run, Status
from oracles.verdict import Outcome

ORT = "onnxruntime_pybind11_state.cpython-311-x86_64-linux-gnu.so"
FRAMES = (Frame(ORT, 0x1234, "fn_1200"), Frame(ORT, 0x9999, "fn_9000"))


def crash(**changes: object) -> Run:
    run = Run(Config("none"), Status.CRASH, Phase.EXECUTE, signal=8, frames=FRAMES)
    return replace(run, **changes)  # type: ignore[arg-type]


def exception(message: str, error: str = "Fail") -> Run:
    return Run(Config("all"), Status.EXCEPTION, Phase.OPTIMISE, error=error, message=message)


def test_the_innermost_frame_is_the_site() -> None:
    symptom = symptom_of_run(Outcome.CRASH, crash())
    assert (symptom.kind, symptom.site) == ("SIGFPE", "onnxruntime_pybind11_state fn_1200")
    assert symptom_of_run(Outcome.CRASH, crash(frames=())).site == ""


def test_crashes_in_two_functions_are_two_symptoms() -> None:
    other = crash(frames=(Frame(ORT, 0x7777, "fn_7000"),))
    assert symptom_of_run(Outcome.CRASH, crash()) != symptom_of_run(Outcome.CRASH, other)


def test_two_offsets_in_one_function_are_one_symptom() -> None:
    other = crash(frames=(Frame(ORT, 0x1250, "fn_1200"),))
    assert symptom_of_run(Outcome.CRASH, crash()) == symptom_of_run(Outcome.CRASH, other)


def test_only_an_abort_keeps_its_last_words() -> None:
    words = "terminate called after throwing 'std::length_error' at 0x7f00"
    abort, fault = crash(signal=6, message=words), crash(signal=11, message=words)
    assert "terminate called after throwing" in symptom_of_run(Outcome.CRASH, abort).message
    assert symptom_of_run(Outcome.CRASH, fault).message == ""


@pytest.mark.parametrize(("number", "name"), [(8, "SIGFPE"), (11, "SIGSEGV"), (6, "SIGABRT"), (0, "exit 0")])
def test_signals_have_names(number: int, name: str) -> None:
    assert signal_name(number) == name


def test_an_exception_keeps_class_site_operator_and_template() -> None:
    message = (
        "Non-zero status code returned while running Mod node. Name:'m_1' Status Message: e.cc:9 Run no 7"
    )
    symptom = symptom_of_run(Outcome.EXCEPTION, exception(message), side="optimised")
    assert (symptom.kind, symptom.site, symptom.message) == ("Fail", "e.cc Run", "Mod: no *")
    assert symptom.side == "optimised"


def test_the_models_names_do_not_count() -> None:
    one = symptom_of_run(Outcome.EXCEPTION, exception("edge out_a to in_b is bad"), {"out_a", "in_b"})
    other = symptom_of_run(Outcome.EXCEPTION, exception("edge enc/x to dec/y is bad"), {"enc/x", "dec/y"})
    assert one == other


def test_the_side_tells_symptoms_apart() -> None:
    run = exception("broken")
    sides = {symptom_of_run(Outcome.EXCEPTION, run, side=side) for side in ("", "optimised", "un-optimised")}
    assert len(sides) == 3
