"""What a case's runs amount to: the verdict, and the symptom that the reducer holds on to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from corpus.errors import UserError
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


MISUSE = "memory: "
"""The beginning of what a run between closed pages says of what it sees."""


@dataclass(frozen=True, slots=True)
class Run:
    """The record of one run under one configuration.

    `outputs` maps the names of the graph's outputs to values, in order, if the status is OK. `error` is the
    leaf class of a Python exception; `message` its text (of a crash: what the process wrote to stderr);
    `trace` the full text as a person would see it. `execute_seconds` are the CPU seconds of the execution.
    `log` holds the backend's own log lines if they were asked for. `at` is a tensor of the node at which an
    exception stopped the framework, if its own stack tells; `dims` are those that the framework knew of
    results that lead there, None of one without known dims. `program` is the one of a batch, counted from 1,
    at which the process died; 0 if it was at none. `refused` are the earlier runs of the case that raised, by
    their numbers.
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
    dims: Mapping[str, Sequence[str] | None] = field(default_factory=dict)
    program: int = 0
    refused: Mapping[int, Run] = field(default_factory=dict)

    @property
    def misuse(self) -> str:
        """How it misuses memory, such as `writes beyond the buffer A`, if it was run between closed pages."""
        is_told = self.status is Status.EXCEPTION and self.message.startswith(MISUSE)
        return self.message.removeprefix(MISUSE) if is_told else ""

    @property
    def is_ok(self) -> bool:
        """Whether it gave its outputs."""
        return self.status is Status.OK

    def held_to(self, baseline: Run) -> Run:
        """The run, as one that fails where an earlier run raised that the baseline took."""
        alone = (at for at in self.refused if at not in baseline.refused)
        return next((replace(self.refused[at], refused={at: self.refused[at]}) for at in alone), self)


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


class Outcome(StrEnum):
    """The result of judging a case, in a word."""

    PASS = "pass"
    CRASH = "crash"
    EXCEPTION = "exception"
    MISMATCH = "mismatch"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out-of-memory"
    PERF = "perf"
    INVALID = "invalid"
    UNSUPPORTED = "unsupported"
    NONFINITE = "nonfinite"
    UNDECIDED = "undecided"

    @property
    def is_bug(self) -> bool:
        """Whether a maintainer would want to hear of it."""
        return self not in HARMLESS


HARMLESS = frozenset(
    [Outcome.PASS, Outcome.INVALID, Outcome.UNSUPPORTED, Outcome.NONFINITE, Outcome.UNDECIDED]
)
"""Outcomes that no maintainer needs to hear of."""


class Mark(StrEnum):
    """The meaning of a note to crux itself, which never reads the note's text."""

    STATE_DEPENDENT = "state-dependent"
    """The case did another thing in the first run than in a new process."""

    UNDECIDED = "undecided"
    """Nothing explains a difference, and no truth confirms it."""

    NONFINITE = "nonfinite"
    """A difference was set aside because of values that are not finite."""

    OUT_OF_TIME = "out of time"
    """The whole check took more CPU time than it may."""

    LIMIT = "importer-limit"
    """The compiler itself declares that it does not do this yet."""

    MEMORY = "memory"
    """A guarded run shows how the failing one misuses memory."""

    ELSEWHERE = "another framework's"
    """What runs the program that the target has written is wrong, and not the target."""


def kind_of_misuse(words: str) -> str:
    """The kind of a misuse of memory, without the size of the block."""
    return re.sub(r":? a block of \d+ bytes$", "", words)


class Notes:
    """Notes as they come, and what they mean: by mark the text of the first note that has it."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.marks: dict[Mark, str] = {}

    def add(self, text: str, mark: Mark | None = None) -> None:
        """Add a note."""
        self.texts.append(text)
        if mark is not None:
            self.marks.setdefault(mark, text)


NO_DATA = "NotData"
"""How a worker calls its refusal of a program that names what is no operator."""


_OF_THE_HEAP = re.compile(
    r"double free|corrupted|invalid (?:pointer|size|next size|chunk)|malloc|free\(\)|stack smashing"
    r"|^memory: ",
    re.MULTILINE,
)
"""What the C library, or the guarded allocator, says before it aborts."""


@dataclass(frozen=True, slots=True)
class Symptom:
    """The part of a failure that must stay while a case shrinks: no names, numbers, shapes or versions.

    `kind` is the exception's leaf class, the signal's name, or the kind of mismatch (`shape`, `dtype`,
    `nan`, `value`); `site` the throwing C++ function or the top frame that is not glue, or for a mismatch
    which side is wrong; `message` the message's template. `side` tells which of the runs show it where only
    some do: `optimised` or `un-optimised`. A result that contradicts what its operator declares has the
    operator as its site, and a side.
    """

    outcome: Outcome
    phase: Phase
    kind: str
    site: str = ""
    message: str = ""
    side: str = ""

    @property
    def is_of_memory(self) -> bool:
        """Whether it is a way in which damaged memory ends a process."""
        is_heap = self.kind == "SIGABRT" and _OF_THE_HEAP.search(self.message) is not None
        return self.outcome is Outcome.CRASH and (self.kind in ("SIGSEGV", "SIGBUS") or is_heap)

    def __str__(self) -> str:
        parts = (self.outcome.value, self.phase.value, self.kind, self.site, self.message, self.side)
        return " | ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Located:
    """The first wrong tensor, in the user's names: what makes it, how far off it is, what was still right."""

    tensor: str
    node: str
    op: str
    error: float
    right_until: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WrongResult:
    """The facts about a mismatch: the wrong side and output, by how much, and where it begins.

    `kind` is `nan`, `inf`, `sign`, `zeros`, `off by one`, `saturation`, a band of units in the last place
    (`2^17 ulps`), `shape`, `dtype` or `nondeterministic`; `error` the greatest distance from the other side.
    `off_truth` are the distances of the un-optimised and of the other side from the `truth`, where there is
    one, and empty where the side is only presumed. `first` is the first tensor in topological order that
    differs, `operator` what makes it. `contradiction` says in words what one side alone
    shows to be wrong, such as what an operator gives and what its inputs fix.
    """

    output: str
    side: str
    kind: str
    error: float = 0.0
    truth: str = ""
    off_truth: tuple[float, float] | None = None
    first: str = ""
    operator: str = ""
    located: Located | None = None

    @property
    def times(self) -> float | None:
        """How many times further from the truth the wrong side is; None if no truth says so."""
        if self.off_truth is None:
            return None
        near, far = sorted(self.off_truth)
        return far / near if near else float("inf")

    contradiction: str = ""

    @property
    def is_presumed(self) -> bool:
        """Whether no other implementation has said which side is wrong."""
        return not self.truth


@dataclass(frozen=True, slots=True)
class Verdict:
    """One case's judgement.

    `title` is one line for a person. `symptom` is None exactly when the outcome is `pass`. `runs` are the
    runs that it rests on, the un-optimised one first, then, where another one shows the failure, that one.
    `notes` say what was repaired or set aside on the way; `marks` are what these mean to crux itself, each
    with the note that says it. `wrong` is there for a mismatch.
    """

    outcome: Outcome
    phase: Phase
    title: str
    symptom: Symptom | None = None
    runs: tuple[Run, ...] = ()
    notes: tuple[str, ...] = ()
    wrong: WrongResult | None = None
    marks: Mapping[Mark, str] = field(default_factory=dict)

    @property
    def is_bug(self) -> bool:
        """Whether a maintainer would want to hear of it."""
        return self.outcome.is_bug

    @property
    def texts(self) -> dict[str, str]:
        """What is told of it everywhere, by name."""
        return {
            "outcome": self.outcome.value,
            "phase": self.phase.value,
            "symptom": str(self.symptom or ""),
            "title": self.title,
        }

    def must_be_of_a_program(self, where: str) -> Verdict:
        """The verdict itself; raises `UserError` where the case names what a program kept as data may not."""
        refused = next((run for run in self.runs if run.error == NO_DATA), None)
        if refused is not None:
            why = " ".join(refused.message.split())[:300]
            raise UserError(f"{where}: {why}; name one of torch's, or give the script with --trust")
        return self

    @property
    def misuse_by_turns(self) -> str:
        """The kind of misuse of memory that ends in another way from run to run; empty if it is none."""
        is_by_turns = Mark.STATE_DEPENDENT in self.marks
        words = self.marks.get(Mark.MEMORY, "") if is_by_turns else ""
        return kind_of_misuse(words)

    @property
    def failing(self) -> Run | None:
        """The run that shows the failure: the first one that ended as the outcome says, else the last one.

        Of an un-optimised failure that is not the last one; of a wrong result it is the other side.
        """
        ended = (run for run in self.runs if run.status == self.outcome.value)
        return next(ended, self.runs[-1] if self.runs else None)
