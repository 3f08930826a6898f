"""What a backend is to crux: what each must have, and the parts that some have besides.

A backend's file ends with `backend()`, which gives one of these. The worker's half of the file (`load`, `run`
and what else `Sandbox.ask` calls) is called in the worker only, which never calls `backend()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Protocol

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats import language_in
from corpus.target import Target
from corpus.values import Value
from oracles.verdict import Config, Run


class Misplaced(Protocol):
    """Say why passes cannot stand in this order in a program of these facts; empty if they can."""

    def __call__(self, names: Sequence[str], facts: frozenset[str]) -> str:
        """The complaint."""


@dataclass(frozen=True)
class Passes:
    """An optimiser whose passes can be told apart and disabled, by runs that were made with their log."""

    disabled_by: str
    """How its users disable the pass `{}`."""

    fired: Callable[[Run], tuple[str, ...]]
    """The passes that changed the program, in order, and that in which the run died."""

    suspects: Callable[[Run], tuple[str, ...]]
    """The passes, by the names under which they can be disabled, that may have changed the program."""

    optimizers: Callable[[Run], tuple[str, ...]]
    """Every pass that can be disabled."""

    likely: Callable[[Iterable[str], Set[str]], tuple[str, ...]] = lambda names, operators: tuple(names)
    """Those of the passes that have something to start at in a program of these operators."""

    setting: str = "disabled_passes"
    """Names in a configuration the passes that it disables, in a case's own sequence, too."""

    stages: Callable[[Config], tuple[Config, ...]] = lambda config: ()
    """The configurations that do less than this one, the least first."""

    replaced: Callable[[Run, str], str] | None = None
    """What the pass took away and put in, by the log: `-add +multiply`; None where no log says."""

    may_have_fired: Callable[[Run], tuple[str, ...]] | None = None
    """The passes that changed the program, or that the log tells together with one which did.

    None where no log tells of single passes. Otherwise the worker's half of the backend has
    `documented(path, base64)`: the programs that the tests of a file make.
    """

    told_with: Callable[[str], tuple[str, ...]] = lambda name: ()
    """The passes that are to be disabled for the log to tell of this one alone."""

    def has_fired(self, run: Run, name: str) -> bool:
        """Whether the pass changed the program, in a run without those that are told with it."""
        return self.may_have_fired is not None and name in self.may_have_fired(run)

    def without(self, config: Config, disabled: Iterable[str]) -> Config:
        """The configuration with these passes disabled as well."""
        return config.adding(self.setting, disabled)


@dataclass(frozen=True)
class Sequences:
    """A backend that runs a case's own sequence of passes, by their names, before it builds the program."""

    names: tuple[str, ...]
    """The passes that sequences are drawn from."""

    asked_about: tuple[str, ...]
    """Further passes that are asked whether they change a program, but stand in no sequence."""

    seldom: frozenset[str]
    """Those of them that seldom have any effect."""

    facts_of: Callable[[str, bytes], frozenset[str]]
    """What holds of a program of a format at the start."""

    misplaced: Misplaced

    repaired: Callable[[Iterable[str]], tuple[str, ...]]
    """The passes with what each of them needs put in before it: a valid sequence."""

    on_loops: Callable[[frozenset[str]], Sequences] | None = None
    """The sequences for TIR programs of which these facts hold at the start; None if it runs none."""

    options: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The values of options that may stand in a sequence of a TIR program, as `NAME=VALUE`."""

    lossy: frozenset[str] = frozenset()
    """The passes after which results are others by design."""

    share: float = 0.5
    """How many of a campaign's cases have a sequence."""

    of_blocks: bool = False
    """Whether all cases of a block have the same one, as these are compiled together."""

    @classmethod
    def of_options(cls, options: Mapping[str, tuple[str, ...]], *, of_blocks: bool = False) -> Sequences:
        """Sequences of options alone, `NAME=VALUE` in any order, for a backend that runs no pass by name."""
        members = tuple(f"{name}={value}" for name, values in options.items() for value in values)

        def misplaced(names: Sequence[str], facts: frozenset[str]) -> str:
            unknown = next((name for name in names if name not in members), "")
            return f"there is no option {unknown}" if unknown else ""

        def repaired(names: Iterable[str]) -> tuple[str, ...]:
            last = {name.partition("=")[0]: name for name in names}
            return tuple(sorted(last.values()))

        none = frozenset[str]()
        how = (lambda *_: none, misplaced, repaired)
        return cls(members, (), none, *how, share=0.2, of_blocks=of_blocks)

    @property
    def runs_passes(self) -> bool:
        """Whether there are passes among its names, and not options alone."""
        return any("=" not in name for name in self.names)


@dataclass(frozen=True)
class Graphs:
    """How a backend runs programs of further languages.

    Its worker half has a `run_LANGUAGE` for each where `run` does not take them, and `describe(program,
    types)`: the types of all bindings, or an `error`.
    """

    formats: tuple[str, ...]

    double: tuple[tuple[str, str | int], ...] = ()
    """The settings that run a program in float64, un-optimised; empty if there are none."""

    opens: tuple[str, ...] = ()
    """The formats of which its worker half opens foreign files: `open_program(name, base64)`."""

    configs: Callable[[Target], tuple[Config, ...]] | None = None
    """The ways to run them, the un-optimised one first, if they are not the backend's usual ones."""

    referee: str = ""
    """Another backend of ours that runs such programs as well, in float64."""

    asked: str = ""
    """The oracles that such programs are judged by if none are asked for."""


@dataclass(frozen=True)
class Backend:
    """The description of one framework that runs programs.

    The worker loads `file`. `passes`, `sequences` and `graphs` are set if the backend has them. `formats` are
    the languages that it runs by its usual `configs`, after its `baseline`; `graphs` tells of all others.
    """

    name: str
    package: str
    file: str

    configs: Callable[[Target], tuple[Config, ...]]
    """The un-optimised baseline (not if there is a `baseline`), the optimised way, then the lower levels."""

    classify: Callable[[Run], str]
    """`unavailable`, `unsupported`, `out-of-memory`, `invalid-input`; "" for what may be a bug.

    Or `ill-marked`: a mark for the optimiser does not fit the program, so that it alone refuses.
    """

    tags: Callable[[Run], tuple[str, ...]] = lambda run: ()
    """Notes on a failure that a person would want to read, such as `importer-limit`."""

    baseline: str = ""
    """The backend that its results are compared with, if it has no un-optimised mode to be trusted."""

    compiler: str = ""
    """The backend that compiles what this one only runs: `perf` holds that against the plain run."""

    exported_with: Callable[[Config], Config] | None = None
    """For a backend that writes programs for another framework: the same by an independent implementation.

    It says whether the backend or that framework is wrong. What either lacks is no bug of the backend.
    """

    reads_onnx: bool = True
    """False if programs are lowered by us: which ONNX models are accepted is then our own doing."""

    lacks: frozenset[str] = frozenset()
    """The dtypes that it does not compute: campaigns draw no programs of them."""

    computed_as: Mapping[str, str] = field(default_factory=dict)
    """The shorter dtypes in which it computes others: what those cannot hold is left open."""

    clamps: frozenset[str] = frozenset()
    """The integer dtypes in which it clamps what others wrap: such an overflow leaves the result open."""

    flushes: frozenset[str] = frozenset()
    """The dtypes in which it takes what is below the least normal number for 0: such values leave it open."""

    leaves_nan: frozenset[str] = frozenset()
    """The ONNX operators of which its own texts leave open where NaN stands in an order."""

    saturates: Callable[[], bool] = lambda: False
    """Whether it sums pairs of products of uint8 and int8 in 16 bits on this machine, by design."""

    computes_wide: bool = False
    """Whether it computes short floats in a longer type on the CPU, so that they round once."""

    keeps_tolerances: bool = False
    """Whether its project takes no report of differences below its usual tolerances."""

    forks: bool = False
    """Whether each test runs in a process of its own: that costs little beside a compilation."""

    dialect: str = ""
    """The strategy that makes programs of operators of its own beside ONNX's."""

    calls_again: frozenset[str] = frozenset()
    """The formats of which it runs what it has compiled with several sizes: a case's earlier runs."""

    batches: frozenset[str] = frozenset()
    """The formats of which it runs many programs at once, by the setting `batch`: `oracles/screening.py`."""

    written_as: tuple[str, ...] = ()
    """The forms in which it can write a program out and read it back first: by the setting `via`."""

    tells_operators: bool = False
    """Whether its worker half has `vocabulary()`: the ONNX operators in its own table (`DOMAIN.*`: all)."""

    checked_by: str = ""
    """The setting by which it checks the module after every pass."""

    typed_by: str = ""
    """The setting by which it compares types after every pass with those that it infers, and those before."""

    shows_optimised: bool = False
    """Whether its worker half has `optimised(base64, level, disabled)`: what the optimiser makes of it."""

    programs: tuple[str, ...] = ()
    """Programs of the system one of which it calls."""

    libraries: tuple[tuple[str, str], ...] = ()
    """Its own machine code that can be watched.

    Patterns of paths below its packages' folder, each with the namespace that counts (empty: all of it).
    """

    passes: Passes | None = None
    sequences: Sequences | None = None
    graphs: tuple[Graphs, ...] = ()
    formats: tuple[str, ...] = ("onnx",)

    def graphs_of(self, format: str) -> Graphs | None:
        """How it runs programs of a further language; None if it runs them as usual, or not at all."""
        return next((each for each in self.graphs if format in each.formats), None)


Describe = Callable[[bytes, Mapping[str, Value]], Mapping[str, Any]]
"""Asks the framework for the types in a program."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The same function written otherwise, for all ways to run it if `everywhere`.

    `inputs` are there where they change.
    """

    what: str
    program: bytes
    inputs: Mapping[str, Value] | None = None
    everywhere: bool = False


def _nothing_noted(program: Any) -> tuple[Any, tuple[str, ...]]:
    return program, ()


@dataclass(frozen=True, kw_only=True)
class Language:
    """A language of programs, to the judge; `program` is what its format's `parse` makes.

    What it must say: `open(opened, executor, tolerance=…, screen=…, accept_invalid=…)` makes the `Context`
    that rules ask; `names` are the program's own, which messages are made blind to; `pattern` is its
    operators and types in order, for a signature. What else it leaves out does not exist for it.
    """

    open: Callable[..., Any]
    names: Callable[[Any], frozenset[str]]
    pattern: Callable[[Any], str]

    repaired: Callable[[Any], tuple[Any, tuple[str, ...]]] = _nothing_noted
    """The program with wrong annotations put right, and what these were; the program itself if none was."""

    contradicts: Callable[[Case, Mapping[str, Value]], bool] = lambda case, outputs: False
    """Whether outputs contradict the program's own declaration of them."""

    is_suspect: Callable[[Case, Run], bool] = lambda case, run: False
    """Whether an interpreter of the language contradicts the un-optimised run."""

    has_functions: Callable[[Case], bool] = lambda case: False
    """Whether the program calls functions of its own, which optimised and un-optimised runs handle alike."""

    referee_knows_rules: bool = False
    """Whether the referee refuses nothing but what breaks a rule of the language."""

    rewrites: Callable[[Case, Describe], Iterator[Rewritten]] = lambda case, describe: iter(())
    """The program written otherwise, for the oracle `metamorphic`."""

    checks_passes: bool = False
    """Whether a backend's worker checks each pass of a case's own sequence, by the setting `checks`."""

    runs_quickly: bool = False
    """Whether programs may share a process, without checks of their arguments, by the setting `thin`."""

    facts: Callable[[bytes], frozenset[str]] | None = None
    """What holds of a program before its passes; None where the backend says the same of every program."""

    arithmetic: tuple[str, str, str] = ("", "", "")
    """The operators that scale a tensor by another, add it, and take it away."""

    operators_tell: bool = True
    """Whether the operators of a reduced program tell its bug from others; else its own passes do."""

    written_out: Callable[[Any, str], str] = lambda program, operators: operators
    """The operators with those of the program's own functions in place of the calls."""

    computed: Callable[[Any], str] = lambda program: ""
    """Which operands a rewrite may take for constants, and are none."""


@dataclass(frozen=True)
class Opened:
    """A case whose program is parsed and repaired at most once; nobody may change the programs."""

    case: Case

    @cached_property
    def repaired(self) -> tuple[Any, tuple[str, ...]]:
        """The program with wrong annotations put right, and what these were; itself if none was."""
        return language_of(self.case.format).repaired(self.case.parsed)


@cache
def language_of(format: str) -> Language:
    """The language of that name; UserError if there is none, or if nobody has said how it is judged."""
    found: Language | None = language_in("oracles.languages", format)
    if found is None:
        raise UserError(f"{format} programs: crux does not know how to judge them")
    return found
