"""The symptom of a verdict: what the reducer keeps fixed while a case shrinks."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence

from oracles.normalise import parse_message, template
from oracles.run import Frame, Phase, Run, Status
from oracles.verdict import Outcome, Symptom

_GLUE_LIBRARIES = (
    "libc.so",
    "libc-",
    "libpthread",
    "ld-linux",
    "ld-",
    "libstdc++",
    "libgcc",
    "libm.so",
    "libpython",
)
_GLUE_FILES = ("python", "crash_handler", "[vdso]", "[stack]")


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"exit {number}" if number <= 0 else f"signal {number}"


def telling_frames(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """The frames that say where it broke: not those of the C library, loader, interpreter, handler."""
    return tuple(frame for frame in frames if not _is_glue(frame))


def _is_glue(frame: Frame) -> bool:
    return frame.library.startswith(_GLUE_LIBRARIES) or any(part in frame.library for part in _GLUE_FILES)


def symptom_of_run(outcome: Outcome, run: Run, names: Iterable[str] = (), side: str = "") -> Symptom:
    """The symptom of one run that did not end well; `names` are the model's own, to be dropped."""
    if run.status is Status.EXCEPTION:
        return _of_exception(outcome, run, names, side)
    if run.status is Status.CRASH:
        return _of_crash(outcome, run, names, side)
    return Symptom(outcome, run.phase, run.status.value, side=side)


def _of_exception(outcome: Outcome, run: Run, names: Iterable[str], side: str) -> Symptom:
    parsed = parse_message(run.message)
    text = template(parsed.rest, names)
    message = f"{parsed.op}: {text}" if parsed.op else text
    return Symptom(outcome, run.phase, run.error, parsed.site, message, side)


def _of_crash(outcome: Outcome, run: Run, names: Iterable[str], side: str) -> Symptom:
    frames = telling_frames(run.frames)
    site = f"{frames[0].library} {frames[0].function}".strip() if frames else ""
    kind = signal_name(run.signal)
    # only an abort says why it died; what else stands on stderr belongs to no one failure
    message = template(run.message, names) if kind == "SIGABRT" else ""
    return Symptom(outcome, run.phase, kind, site, message, side)


def symptom_of_difference(kind: str, wrong_side: str) -> Symptom:
    """The symptom of a wrong result: `shape`, `dtype`, `nan`, `value`, … on one side."""
    return Symptom(Outcome.MISMATCH, Phase.COMPARE, kind, wrong_side)
