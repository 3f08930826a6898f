"""A signature: the printable name of a bug, and its digest; `oracles.naming.names` says what is in it.

Kept apart because listing a thousand of them needs neither onnx nor numpy.
"""

from __future__ import annotations

import hashlib
import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oracles.verdict import Frame, Outcome, Phase, Run, Status, Symptom

VERSION = 1
Component = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Signature:
    """The printable components of a bug's name, and their digest; comparable within one `version`."""

    version: int
    components: tuple[Component, ...]
    digest: str

    @classmethod
    def of(cls, *components: Component) -> Signature:
        """Make a signature of named components; empty ones are left out."""
        kept = tuple((name, text) for name, text in components if text)
        joined = "\x1f".join([str(VERSION), *(f"{name}\x1e{text}" for name, text in kept)])
        return cls(VERSION, kept, hashlib.sha256(joined.encode()).hexdigest()[:12])

    def __str__(self) -> str:
        return " | ".join(f"{name}: {text}" for name, text in self.components)


GENERATED = re.compile(r"^c[a-z2-7]{51}$")
"""A library of compiled kernels: inductor names it after a hash of its source."""


def signal_name(number: int) -> str:
    """A signal's name, such as `SIGSEGV`; its number if it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"exit {number}" if number <= 0 else f"signal {number}"


def crash_site(frames: Sequence[Frame]) -> str:
    """The innermost frame (glue is not among them): its library without the build's tags, its function."""
    if not frames:
        return ""
    library = GENERATED.sub("generated", frames[0].library.split(".", 1)[0])
    return f"{library} {frames[0].function}".strip()


def symptom_of_run(outcome: Outcome, run: Run, names: Iterable[str] = (), side: str = "") -> Symptom:
    """The symptom of one run that did not end well; `names` are the model's own, to be dropped."""
    if run.status is Status.EXCEPTION:
        from oracles.text.failure_text import native_site
        from oracles.text.normalise import parse_message, template

        parsed = parse_message(run.message)
        text = template(parsed.rest, names)
        op = parsed.op or parse_message(run.trace[: run.trace.find("\n") + 1]).op
        message = f"{op}: {text}" if op else text
        return Symptom(outcome, run.phase, run.error, parsed.site or native_site(run.trace), message, side)
    if run.status is Status.CRASH:
        return _of_crash(outcome, run, names, side)
    return Symptom(outcome, run.phase, run.status.value, side=side)


def _of_crash(outcome: Outcome, run: Run, names: Iterable[str], side: str) -> Symptom:
    kind = signal_name(run.signal)
    from oracles.text.normalise import template

    # only an abort says why it died; what else stands on stderr belongs to no one failure
    message = template(run.message, names) if kind == "SIGABRT" else ""
    return Symptom(outcome, run.phase, kind, crash_site(run.frames), message, side)


def symptom_of_difference(kind: str, wrong_side: str, asked_by: str = "") -> Symptom:
    """The symptom of a wrong result: `shape`, `dtype`, `nan`, `value`, … on one side.

    `asked_by` is the oracle that shows it, where that is not the comparison of the target's own ways.
    """
    return Symptom(Outcome.MISMATCH, Phase.COMPARE, kind, wrong_side, asked_by.partition(":")[0])
