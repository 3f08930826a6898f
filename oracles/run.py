"""What is run and what came of it, before anybody judges it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from corpus.values import Value


class Phase(StrEnum):
    """The phase that a run reached, in the order of execution."""

    IMPORT = "import"
    OPTIMISE = "optimise"
    CODEGEN = "codegen"
    EXECUTE = "execute"
    COMPARE = "compare"


class Status(StrEnum):
    """The end of a run."""

    OK = "ok"
    EXCEPTION = "exception"
    CRASH = "crash"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out-of-memory"


@dataclass(frozen=True, slots=True)
class Config:
    """One way for a backend to run a program: a short label for people, and the backend's own settings.

    `backend` names the backend where it is not the target's: that of a baseline from elsewhere. `asked_by`
    says which oracle that is asked for by name runs it, and what it changes.
    """

    label: str
    settings: tuple[tuple[str, str | int | tuple[str, ...]], ...] = ()
    backend: str = ""
    asked_by: str = ""

    def get(self, key: str) -> str | int | tuple[str, ...] | None:
        """A setting; None where there is none of that name."""
        return dict(self.settings).get(key)

    def adding(self, key: str, names: Iterable[str]) -> Config:
        """The configuration with names put to those that a setting has already, in order."""
        before = self.get(key)
        every = tuple(sorted({*(before if isinstance(before, tuple) else ()), *names}))
        return replace(self, settings=tuple({**dict(self.settings), key: every}.items()))


@dataclass(frozen=True, slots=True)
class Frame:
    """A native frame: the library's file name, the offset in it, and the function (or its start) if known."""

    library: str
    offset: int
    function: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """The record of one run under one configuration.

    `outputs` maps the names of the graph's outputs to values, in order, if the status is OK. `error` is the
    leaf class of a Python exception; `message` its text (of a crash: what the process wrote to stderr);
    `trace` the full text as a person would see it. `execute_seconds` are the CPU seconds of the execution.
    `log` holds the backend's own log lines if they were asked for. `at` is a tensor of the node at which an
    exception stopped the framework, if its own stack tells.
    """

    config: Config
    status: Status
    phase: Phase
    outputs: Mapping[str, Value] = field(default_factory=dict)
    error: str = ""
    message: str = ""
    trace: str = ""
    signal: int = 0
    frames: tuple[Frame, ...] = ()
    cpu_seconds: float = 0.0
    execute_seconds: float = 0.0
    log: tuple[str, ...] = ()
    at: str = ""

    @property
    def is_ok(self) -> bool:
        """Whether it gave its outputs."""
        return self.status is Status.OK


OWN_SECONDS = 2.0
"""Of a whole check, beside the two runs."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one run: CPU seconds (a hang), wall seconds (a sleep), and bytes of data memory."""

    cpu_seconds: float = 20.0
    wall_seconds: float = 60.0
    memory_bytes: int = 8 << 30

    @property
    def check_seconds(self) -> float:
        """CPU seconds that a whole check may take: opening, all runs, and what crux computes itself.

        Two runs that take all they may, such as a hang and its confirmation, fit in.
        """
        return 2 * self.cpu_seconds + OWN_SECONDS


SETTING = "demand"
REFUSAL = (SETTING, "refusal")
"""The program breaks a rule of its format: every configuration must turn it down, with an error."""
SURVIVAL = (SETTING, "survival")
"""A value in it is out of bounds: results mean nothing, but the process must not die."""

AGREEMENT = (SETTING, "agreement")
"""Nobody knows whether its values are allowed where they go: refusing them is no bug."""
