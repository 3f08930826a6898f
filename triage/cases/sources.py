"""Where a command's cases come from: files and folders, ids of the database, JSON lines on stdin."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from corpus.allowance import OutOfTime, allowed
from corpus.case import Case
from corpus.errors import UserError
from corpus.formats import find_format
from corpus.load import has_inputs, must_be_known, open_case
from corpus.outputs import must_be_empty
from corpus.processes import NotRun, run_for_user
from corpus.reading import parse_json
from corpus.target import Target
from oracles.judge import Judge
from oracles.optional import SETTING
from oracles.sandbox.executor import with_sequence
from oracles.sandbox.scripts import open_foreign
from oracles.verdict import Limits, Verdict
from triage.console.options import CaseOptions
from triage.console.output import say
from triage.store.artifacts import wrong_document
from triage.store.names import find_case, is_name


@contextmanager
def bounded(timeout: float, name: str, times: int = 1) -> Iterator[None]:
    """Raise `UserError` in the block once a case has taken the CPU time of `times` whole checks.

    Only CPU time counts, so a busy machine changes nothing. Outside of the main thread crux's own part is
    not bounded.
    """
    seconds = times * Limits(cpu_seconds=timeout).check_seconds
    try:
        with allowed(seconds):
            yield
    except OutOfTime:
        raise UserError(
            f"{name}: has taken the {seconds:g} CPU seconds that a whole check may, and crux gives up; raise"
            " --timeout if it is meant to be as large"
        ) from None


if TYPE_CHECKING:
    from triage.store.database import Store
    from triage.store.failures import Failure

STDIN = "-"
KEYS = ("case", "path", "id")
"""The members of a JSON object on stdin that may name its case, the first one there counts."""


def each_named(words: Sequence[str]) -> Iterator[str]:
    """Yield the path or id of each case, those on stdin read where a word says so; raises `UserError`."""
    for word in words:
        yield from _lines() if word == STDIN else (word,)


def open_to_run(word: str, options: CaseOptions) -> Case:
    """Open a case as `open_one` does; replace drawn values that are not finite."""
    with Judges(options) as judges:
        return open_one(word, options, judges)


def open_one(word: str, options: CaseOptions, judges: Judges | None = None) -> Case:
    """The case that a path or an id names; a path that exists goes first.

    With judges to run it, inputs that are made from the seed are changed where they lead to NaN or infinity.
    """
    with bounded(options.timeout, word):
        case = _opened(word, options)
        path = Path(word)
        is_made = path.exists() and options.inputs is None and not has_inputs(path)
        if judges is None or not is_made or case.target is None or case.loads_only:
            return case
        from generators.finite import settled
        from generators.language.emit import language_of

        if not language_of(case.format).searches_inputs:
            return case

        return settled(
            case,
            judges.of(case.target, case.format),
            free_weights=options.free_weights,
            seed=options.seed or 0,
            dims=options.sizes,
        )


def _opened(word: str, options: CaseOptions) -> Case:
    path = Path(word)
    if path.exists() or not is_name(word):
        case = open_case(
            path,
            inputs=options.inputs,
            seed=options.seed or 0,
            dims=options.sizes,
            memory_bytes=options.memory << 20,
            trust=options.trust,
            load_only=options.load_only,
            importer=partial(open_foreign, options.target_of(None), options.limits),
        )
    else:
        from triage.store.database import open_to_read

        with open_to_read(options.database) as store:
            case = store.load_case(find_case(store, word))
            case = case.for_loading() if options.load_only else case
        must_be_known(case, word, trust=options.trust)
    usual = find_format(case.format).target
    return with_sequence(replace(case, target=options.target_of(case.target, usual)))


def _lines() -> Iterator[str]:
    for number, line in enumerate(sys.stdin, start=1):
        if line.strip():
            yield _name_in(line, f"stdin, line {number}")


def _name_in(line: str, where: str) -> str:
    document = found = parse_json(line, where, "write a path or an id in quotes on each line")
    if isinstance(document, dict):
        found = next((document[key] for key in KEYS if key in document), None)
    if not isinstance(found, str):
        raise UserError(f"{where}: names no case; write a string, or an object with one of {', '.join(KEYS)}")
    return found


LEVELS = {"errors": "2", "all": "3"}
"""What torch calls them: dump where compiling raises; dump each graph before it is compiled."""
DUMPS = "dumps"
LAUNCHER = "minifier_launcher.py"


@dataclass(frozen=True)
class Ended:
    """The end of the program, and the folder of its dumps and cases."""

    code: int
    folder: Path

    @property
    def is_killed(self) -> bool:
        """Whether a signal ended it."""
        return self.code < 0

    @property
    def dumps(self) -> list[Path]:
        """List torch's dumps in the order of time."""
        found = (self.folder / DUMPS).rglob(LAUNCHER)
        return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path))

    def cases_of(self, target: Target, limits: Limits) -> Iterator[Path]:
        """Yield each dump as a case folder beside the dumps; one that cannot be opened is told in a line."""
        importer = partial(open_foreign, target, limits)
        for place, dump in enumerate(self.dumps, 1):
            try:
                case = open_case(dump, trust=True, target=target, importer=importer)
            except UserError as error:
                say(f"crux: {error}")
                continue
            folder = self.folder / f"case-{place}"
            replace(case, origin=str(dump)).save(folder)
            yield folder

    def sentence(self, count: int) -> str:
        """Say how the program ended, and how many cases came of it."""
        how = f"died of {signal.Signals(-self.code).name}" if self.is_killed else f"ended with {self.code}"
        found = (
            "no graph failed to compile" if not self.dumps else f"{count} of {len(self.dumps)} graphs kept"
        )
        return f"the program {how}; {found}"


def run_wrapped(command: Sequence[str], folder: Path, catch: str) -> Ended:
    """Run the command to its end, its own output untouched; what torch dumps goes below the folder.

    Raises `UserError` for another kind than `LEVELS`, a command that cannot be started, a folder in use.
    """
    if catch not in LEVELS:
        raise UserError(f"--catch {catch}: one of {', '.join(LEVELS)}")
    must_be_empty(folder)
    dumps = (folder / DUMPS).resolve()
    dumps.mkdir(parents=True)
    asked = {
        "TORCHDYNAMO_REPRO_AFTER": "aot",
        "TORCHDYNAMO_REPRO_LEVEL": LEVELS[catch],
        "TORCH_COMPILE_DEBUG_DIR": str(dumps),
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",  # what comes out of a cache is not dumped
    }
    try:
        code = run_for_user(command, asked)
    except NotRun as error:
        raise UserError(str(error)) from None
    return Ended(code, folder)


class Judges:
    """The judges of one command; a context manager."""

    def __init__(self, options: CaseOptions) -> None:
        self.options = options
        self._open: dict[tuple[Target, str], Judge] = {}
        self._stack = ExitStack()

    def of(self, target: Target, format: str = "") -> Judge:
        """The judge of a target for programs of a format, opened when first asked for."""
        key = target, format
        if key not in self._open:
            self._open[key] = self._stack.enter_context(self.options.judge(target, format=format))
        return self._open[key]

    def of_case(self, case: Case) -> Judge:
        """The judge of a case's target, which must have one."""
        assert case.target is not None
        return self.of(case.target, case.format)

    def of_failure(self, store: Store, failure: Failure) -> Judge:
        """The judge of the target that a failure was seen on."""
        return self.of(Target.of_data(failure.target), store.load_case(failure.case_id).format)

    def open(self, word: str) -> tuple[Case, Judge]:
        """The case that a path or an id names, and the judge of its target."""
        case = open_one(word, self.options, self)
        return case, self.of_case(case)

    def begin(self, word: str) -> None:
        """Start what the case that a word names will need, where that can be told without opening it."""
        from corpus.formats import format_of

        found = format_of(Path(word)) if Path(word).is_file() else None
        if found is not None and found.begin is not None:
            self.of(self.options.target_of(None), found.name).executor.begin()
            found.begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def judge_often(judge: Judge, case: Case, repeat: int) -> tuple[Verdict, dict[str, Any]]:
    """The verdict that counts, and its document: the first that shows a bug, else the first.

    Repeated judging also says how often that symptom came.
    """
    first = judge.verdict(case).must_be_of_a_program(case.origin or case.case_id[:12])
    verdicts = [first, *(judge.verdict(case) for _ in range(repeat - 1))]
    chosen = next((verdict for verdict in verdicts if verdict.is_bug), verdicts[0])
    chosen = judge.explain(case, chosen)
    document: dict[str, Any] = {
        **chosen.texts,
        "bug": chosen.is_bug,
        "target": str(judge.target),
        "notes": list(chosen.notes),
    }
    if chosen.wrong is not None:
        document["wrong"] = wrong_document(chosen)
    if repeat > 1:
        same = sum(verdict.symptom == chosen.symptom for verdict in verdicts)
        document |= {"repeats": repeat, "same": same}
    return chosen, document


def rewrites(target: Target) -> bool:
    """Whether an oracle of the target runs other programs than a case's own."""
    return "metamorphic" in target.get(SETTING, "").split(",")


def alone(
    case: Case, judge: Judge, said: Callable[[str], None] = lambda text: None
) -> tuple[Case, Verdict | None]:
    """The rewritten program and its verdict if that is what fails, and fails by itself; else the case."""
    if not rewrites(judge.target):
        return case, None
    verdict = judge.verdict(case)
    other = judge.rewritten(case, verdict) if verdict.is_bug else None
    found = judge.verdict(other) if other is not None else None
    if other is None or found is None or not found.is_bug or judge.rewritten(other, found) is not None:
        return case, verdict
    said("the rewritten program fails by itself: it is taken instead")
    return other, found
