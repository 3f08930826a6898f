"""The options that commands share, each declared once, and the step from a typed function to a command."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from triage.console.output import appearance, quoted

if TYPE_CHECKING:
    from corpus.target import Target
    from oracles.judge import Judge
    from oracles.native.watching import Watch
    from oracles.numerics.compare import Tolerance
    from oracles.verdict import Limits

PANEL = "Common options"
RARE = "Rare options"
"""Where a command declares what its first screen of help leaves out."""
DEFAULT_DATABASE = Path("crux.db")
WALL_PER_CPU = 3
MARKER = "environment.json"
"""The file in an environment that says that it is complete."""


def _option(*names: str, text: str = "", **settings: Any) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=PANEL, **settings)


def rare(name: str, metavar: str | None, text: str, **bounds: Any) -> Any:
    """An option that few people need: the help lists it apart."""
    return typer.Option(name, metavar=metavar, help=text, rich_help_panel=RARE, **bounds)


class Color(StrEnum):
    """When colours are used."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The options of every command; the last two hold before it starts."""

    db: Annotated[Path | None, _option("--db", text="The database. (default: ./crux.db)")] = None
    json: Annotated[bool, _option("--json", text="One JSON document on stdout.")] = False
    color: Annotated[
        Color, _option("--color", text="Colours: auto: on a terminal, unless NO_COLOR is set.")
    ] = Color.AUTO
    quiet: Annotated[bool, _option("--quiet", text="No progress and no hints on stderr.")] = False
    offline: Annotated[bool, _option("--offline", text="Ask no package index for the newest release.")] = (
        False
    )
    usual_database: Annotated[Path, _option("--usual-database", hidden=True)] = DEFAULT_DATABASE
    """From the settings."""

    @property
    def database(self) -> Path:
        """The path of the database."""
        return self.db or self.usual_database


@dataclass(frozen=True, slots=True)
class CaseOptions(StoreOptions):
    """The options of every command that runs cases, besides those of every command."""

    usual_target: Annotated[str, _option("--usual-target", hidden=True)] = ""
    """From the settings: for cases that say none, in place of `ort`."""

    inputs: Annotated[
        Path | None,
        _option("--inputs", text="An .npz with the case's inputs."),
    ] = None
    dims: Annotated[
        str, _option("--dims", metavar="NAME=N,…", text="Sizes of symbolic dims, for inputs that are made.")
    ] = ""
    target: Annotated[
        str | None,
        _option("--target", text="Such as ort or ort@opt=basic. (default: the case's own, or ort)"),
    ] = None
    jobs: Annotated[int, _option("-j", "--jobs", text="Worker processes.", min=1)] = 1
    seed: Annotated[
        int | None, _option("--seed", text="For values and programs. (default: 0, or where fuzzing stopped)")
    ] = None
    timeout: Annotated[
        float,
        _option(
            "--timeout", text="CPU seconds of one run; of a whole check twice that and 2.", min=0.1, max=1e6
        ),
    ] = 20.0
    memory: Annotated[
        int, _option("--memory", text="MB of memory that one run may take.", min=64, max=1 << 24)
    ] = 8192
    tolerance: Annotated[
        str, _option("--tolerance", text="auto: a wrong value is one that rounding does not explain.")
    ] = "auto"
    rtol: Annotated[
        float | None, _option("--rtol", text="A fixed relative tolerance instead. (usually 1e-2)", min=0.0)
    ] = None
    atol: Annotated[
        float | None, _option("--atol", text="A fixed absolute tolerance instead. (usually 1e-3)", min=0.0)
    ] = None
    oracles: Annotated[
        str | None, _option("--oracles", text="More oracles, with commas, such as metamorphic,backends.")
    ] = None
    accept_invalid: Annotated[
        bool, _option("--accept-invalid", text="Judge models that the checker and the target reject, too.")
    ] = False
    free_weights: Annotated[
        bool,
        _option("--free-weights", text="Change weights, too, where no inputs keep every value finite."),
    ] = False
    trust: Annotated[
        bool, _option("--trust", text="Accept cases that run code: scripts and custom-op libraries.")
    ] = False

    symptom: Annotated[
        str,
        _option(
            "--symptom",
            metavar="slow",
            text="slow=N: N times (2) the CPU time un-optimised or @against.",
        ),
    ] = ""

    load_only: Annotated[
        bool, _option("--load-only", text="Load, save and load again at every level; execute nothing.")
    ] = False

    def target_of(self, case_target: Target | None, usual: str = "ort") -> Target:
        """The target asked for, else the case's own, else the `usual` one of its format."""
        from corpus.target import Target
        from oracles.backends import find_backend
        from oracles.optional import FACTOR, SETTING, find_asked

        if self.target or (case_target is None and self.usual_target and usual in ("ort", self.usual_target)):
            target = Target.parse(self.target or self.usual_target)
        else:
            target = self.trusted(case_target or Target(usual))
        find_backend(target.backend)
        if self.oracles is not None:
            find_asked(self.oracles)
            target = target.with_setting(SETTING, self.oracles)
        if self.symptom:
            target = target.with_setting(SETTING, "perf").with_setting(FACTOR, str(self._times))
        return target

    @property
    def _times(self) -> float:
        """How many times as long `--symptom slow` is; raises `UserError` for other words."""
        from corpus.errors import UserError

        word, _, times = self.symptom.partition("=")
        try:
            found = float(times or 2)
        except ValueError:
            found = 0.0
        if word != "slow" or not 1 < found < 1e6:
            raise UserError(f"--symptom {self.symptom[:40]!r}: only slow, or slow=N with N over 1")
        return found

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of symbolic dims that are asked for; raises `UserError` for other text."""
        from corpus.errors import UserError

        sizes: dict[str, int] = {}
        for part in filter(None, self.dims.split(",")):
            name, _, size = part.rpartition("=")
            if not name.strip() or not size.strip().isdecimal() or int(size) >= 1 << 31:
                raise UserError(f"--dims {part[:80]!r}: write names with sizes, such as batch=2,seq=16")
            sizes[name.strip()] = int(size)
        return sizes

    def trusted(self, target: Target) -> Target:
        """The target, as one that may be run; `UserError` if it is of a file or database and says what runs.

        What the command line names itself is not in question, nor an interpreter that crux has installed.
        """
        from dataclasses import replace

        from corpus.errors import UserError

        named = target
        for setting in ("python", "against"):
            if is_own_environment(target.get(setting)):
                named = named.without_setting(setting)
        if named.complaint and not self.trust and self.target != str(target):
            raise UserError(
                f"target {str(target)[:200]!r}: comes with the case and says what to run"
                f" ({target.complaint}); give it as --target yourself, or --trust"
            )
        return replace(target, is_foreign=False)

    @property
    def tolerances(self) -> Tolerance:
        """`auto`, or the fixed ones where one is given; raises `UserError` for another word than auto."""
        from corpus.errors import UserError
        from oracles.numerics.compare import AUTO, Tolerance

        if self.tolerance != "auto":
            raise UserError(f"--tolerance {self.tolerance}: only auto; fixed ones go by --rtol and --atol")
        if self.rtol is None and self.atol is None:
            return AUTO
        usual = Tolerance()
        return Tolerance(
            usual.rtol if self.rtol is None else self.rtol, usual.atol if self.atol is None else self.atol
        )

    @property
    def limits(self) -> Limits:
        """The bounds of one run."""
        from oracles.verdict import Limits

        return Limits(self.timeout, self.timeout * WALL_PER_CPU, self.memory << 20)

    def judge(
        self,
        target: Target,
        *,
        format: str = "",
        watch: Watch | None = None,
    ) -> Judge:
        """A judge of a target with these limits and tolerances, not yet opened; `watch` is told its code."""
        from oracles.judge import Judge

        return Judge(
            self.trusted(target),
            limits=self.limits,
            tolerance=self.tolerances,
            accept_invalid=self.accept_invalid,
            format=format,
            watch=watch,
        )


def is_own_environment(python: str) -> bool:
    """Whether an interpreter is that of an environment in crux's cache, which holds what crux installed."""
    from corpus.processes import cache_folder

    scripts = Path(python).parent
    environment = scripts.parent
    if scripts.name != "bin" or environment.parent != cache_folder() / "environments":
        return False
    return (environment / MARKER).is_file()


class Command:
    """A function of (options, its own parameters) as one of all these parameters, for typer to read.

    These are read when first asked for: a help that lists commands needs their texts alone.
    """

    def __init__(
        self, options: type[StoreOptions], function: Callable[..., int], unsaid: tuple[str, ...]
    ) -> None:
        self._options, self.function, self._unsaid = options, function, unsaid
        self.__name__ = function.__name__
        self.__annotations__ = {}  # typer reads them besides the signature
        paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
        self.__doc__ = "\n\n".join(each.replace("\n", " ") for each in paragraphs)

    @functools.cached_property
    def _own(self) -> dict[str, inspect.Parameter]:
        """The parameters besides the options; one of a dataclass stands for the dataclass's fields."""
        hints = get_type_hints(self.function, include_extras=True)
        _, *own = inspect.signature(self.function).parameters.values()
        return {each.name: each.replace(annotation=hints[each.name]) for each in own}

    @functools.cached_property
    def __signature__(self) -> inspect.Signature:
        parted = (_parameters(each.annotation) or [each] for each in self._own.values())
        own = list(chain.from_iterable(parted))
        shared = _parameters(self._options)
        shared = [_hidden(each) if each.name in self._unsaid else each for each in shared]
        every = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *shared)]
        return inspect.Signature(every)

    def __call__(self, *own: Any, **given: Any) -> int:
        """Call the function with the options as one value, or as it is; returns its exit code."""
        if own:
            return self.function(*own, **given)

        def part(kind: Any) -> Any:
            return kind(**{each.name: given.pop(each.name) for each in _parameters(kind)})

        options = part(self._options)
        grouped = {name: each.annotation for name, each in self._own.items() if _parameters(each.annotation)}
        given |= {name: part(kind) for name, kind in grouped.items()}
        with appearance(options.color, options.quiet):
            return self.function(options, **given)


OF_FEW = ("symptom",)
"""Shared options that only the help of commands which heed them lists."""


def as_command(
    options: type[StoreOptions],
    function: Callable[..., int],
    *,
    unsaid: tuple[str, ...] = (),
    heeded: tuple[str, ...] = (),
) -> Command:
    """The function as a command, whose result is the exit code.

    `unsaid` are shared options that mean nothing to it: every command takes them, and its help leaves them
    out. `heeded` are those of few commands that mean something to this one.
    """
    return Command(options, function, (*unsaid, *(each for each in OF_FEW if each not in heeded)))


def command(options: type[StoreOptions], **how: tuple[str, ...]) -> Callable[[Callable[..., int]], Command]:
    """Make a function the command that its file is named after; `how` is as in `as_command`."""
    return lambda function: as_command(options, function, **how)


def _hidden(parameter: inspect.Parameter) -> inspect.Parameter:
    """The parameter with an option of the same names that no help shows."""
    kind, option = get_args(parameter.annotation)
    return parameter.replace(annotation=Annotated[kind, typer.Option(*option.param_decls, hidden=True)])


def _parameters(options: Any) -> list[inspect.Parameter]:
    """The fields of a dataclass as parameters; none of any other type."""
    if not (isinstance(options, type) and dataclasses.is_dataclass(options)):
        return []
    hints = get_type_hints(options, include_extras=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(field.name, kind, default=field.default, annotation=hints[field.name])
        for field in dataclasses.fields(options)
    ]


Known = Annotated[
    str,
    typer.Option(
        "--known", metavar="FILE", help="Known issues of your own or of others: a .toml file or its address."
    ),
]


UNCARRIED = frozenset({"json", "color", "quiet", "usual_database", "usual_target"})
"""Shared options that the next command need not have: how this one prints, and settings."""


def next_command(words: str, options: StoreOptions, **also: object) -> str:
    """Write a command that goes on from this one: with its options, and with `also` by their names."""
    return " ".join(["crux", words, *_given(options), *_spelt(also)])


def _given(options: StoreOptions) -> list[str]:
    """The shared options that were given, as words of a command line."""
    named = {each.name: (getattr(options, each.name), each.default) for each in dataclasses.fields(options)}
    return _spelt(
        {name: value for name, (value, usual) in named.items() if value != usual and name not in UNCARRIED}
    )


def _spelt(values: Mapping[str, object]) -> list[str]:
    """Options with their values, quoted for a shell; an empty value is left out, true is the name alone."""
    named = {f"--{name.replace('_', '-')}": value for name, value in values.items() if value}
    return [name if value is True else f"{name} {quoted(str(value))}" for name, value in named.items()]
