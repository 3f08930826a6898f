"""What a package index offers for the interpreters of this machine; pip alone talks to the index.

The newest release of a package, and its newest pre-release, are asked for once a day.
"""

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from corpus import processes
from corpus.errors import UserError
from corpus.processes import cache_folder
from corpus.reading import Fields, Text, held_to, read_json, write_fresh
from corpus.target import Range, is_early, order_of

Minor = tuple[int, int]
OLDEST_MINOR: Minor = (3, 8)
"""What the sandbox's worker runs under."""
NEWEST_MINOR: Minor = (3, 15)
"""Up to here an index is asked for releases that no interpreter of this machine can run."""
ASK_SECONDS = 60
_RETRIES = 3
_UNREACHED = "Retry(total=0"
"""What pip says before its last try if nothing answers; it may still succeed with what it has."""
QUESTION = """
import json, sys
try:
    import ensurepip, venv
except ImportError:
    sys.exit(1)
print(json.dumps([sys.implementation.name, list(sys.version_info[:2]), sys._base_executable]))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python that can make environments."""

    minor: Minor
    path: Path

    @property
    def tag(self) -> str:
        """The interpreter as wheels name it, such as `cp311`."""
        return f"cp{self.minor[0]}{self.minor[1]}"


@dataclass(frozen=True, slots=True)
class Offer:
    """The releases of a package, oldest first: those an interpreter here can run, and what others need."""

    runnable: Mapping[str, Interpreter]
    others: Mapping[str, str]


def list_releases(package: str, wanted: Range) -> Offer:
    """Every release with a wheel for this machine; raises `UserError` where the index has none at all.

    Where crux's own interpreter can run both ends of the range, no other one is looked for. Nightly builds
    and candidates are among them where an end of the range is one.
    """
    early = ("--pre",) if any(map(is_early, (wanted.oldest, wanted.newest))) else ()
    own = _examine(Path(sys.executable))
    if own is not None and wanted.oldest and wanted.newest:
        releases = _ask_index(package, own.minor, early)
        if {wanted.oldest, wanted.newest} <= {release.partition("+")[0] for release in releases}:
            return choose_interpreters(package, {own.minor: own}, {own.minor: releases})
    here = {each.minor: each for each in find_interpreters()}
    minors = {*here, *((3, minor) for minor in range(OLDEST_MINOR[1], NEWEST_MINOR[1] + 1))}
    return choose_interpreters(
        package, here, {minor: _ask_index(package, minor, early) for minor in sorted(minors)}
    )


def find_interpreters() -> tuple[Interpreter, ...]:
    """One CPython of each minor version: crux's own first, then those of version managers and the PATH."""
    found: dict[Minor, Interpreter] = {}
    for path in dict.fromkeys(_candidates()):
        interpreter = _examine(path)
        if interpreter and interpreter.minor >= OLDEST_MINOR:
            found.setdefault(interpreter.minor, interpreter)
    return tuple(found[minor] for minor in sorted(found))


def choose_interpreters(
    package: str, here: Mapping[Minor, Interpreter], offered: Mapping[Minor, Iterable[str]]
) -> Offer:
    """Choose for each release the interpreter with a wheel nearest to crux's own; of two the newer."""
    by_release: dict[str, list[Minor]] = {}
    for minor, releases in offered.items():
        for release in releases:
            by_release.setdefault(release.partition("+")[0], []).append(minor)
    if not by_release:
        raise UserError(f"{package}: the package index has no release of it with a wheel for this machine")
    runnable, others, own = {}, {}, sys.version_info.minor
    for release in sorted(by_release, key=order_of):
        minors = by_release[release]
        usable = [each for each in minors if each in here]
        nearest = min(usable, key=lambda each: (abs(each[1] - own), -each[1]), default=None)
        if nearest is None:
            wanted = ", ".join(f"{major}.{minor}" for major, minor in sorted(minors))
            others[release] = f"it has wheels for Python {wanted}, which is not on this machine"
        else:
            runnable[release] = here[nearest]
    return Offer(runnable, others)


def _candidates() -> Iterator[Path]:
    yield Path(sys.executable)
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for folder in (
        pyenv / "versions",
        data / "uv" / "python",
        data / "hatch" / "env" / "virtual" / ".pythons",
    ):
        yield from sorted(folder.glob("*/bin/python3"), reverse=True)
    for folder in map(Path, os.get_exec_path()):
        names = (f"python3.{minor}" for minor in range(OLDEST_MINOR[1], NEWEST_MINOR[1] + 1))
        yield from (folder / name for name in names if (folder / name).is_file())


def _examine(path: Path) -> Interpreter | None:
    """Ask the interpreter for its version; None if it does not work, or is not CPython."""
    try:
        done = processes.run([str(path), "-I", "-c", QUESTION], ASK_SECONDS)
        name, (major, minor), base = json.loads(done.output)
    except (processes.NotRun, ValueError):
        return None
    return Interpreter((major, minor), Path(base)) if name == "cpython" else None


def newest_releases(package: str, *, nightly: bool = False) -> list[str]:
    """The releases that have a wheel for crux's own Python here, oldest first; with `nightly` early ones too.

    Raises `UserError` where there is none, or nobody to ask.
    """
    words = ("--pre",) if nightly else ()
    found = _ask_index(package, (sys.version_info.major, sys.version_info.minor), words)
    if not found:
        raise UserError(f"{package}: the package index has no release of it with a wheel for this machine")
    return sorted(dict.fromkeys(each.partition("+")[0] for each in found), key=order_of)


def own_interpreter() -> Interpreter:
    """The Python that runs crux, as one that makes environments; raises `UserError`."""
    found = _examine(Path(sys.executable))
    if found is None:
        raise UserError(
            f"{sys.executable}: cannot make environments; its modules venv and ensurepip are not there"
        )
    return found


def _ask_index(package: str, minor: Minor, sources: Sequence[str] = ()) -> list[str]:
    """The releases that have a wheel for that version of Python on this machine, as pip prints them."""
    words = ["--python-version", f"{minor[0]}.{minor[1]}", "--only-binary=:all:", *sources]
    text = _run_pip("index", "versions", package, *words)
    match = re.search(r"^Available versions: (.+)$", text, re.MULTILINE)
    return [word.strip() for word in match[1].split(",")] if match else []


def _run_pip(*words: str) -> str:
    """Return pip's output; "" if the index has nothing. Raises `UserError` if pip cannot ask."""
    quickly = ("--disable-pip-version-check", "--no-input", "--retries", str(_RETRIES))
    command = [*processes.python(), "-m", "pip", *words, *quickly]
    try:
        done = processes.run(command, ASK_SECONDS, variables=processes.environment(processes.INSTALLING))
    except processes.NotRun as error:
        raise UserError(f"the package index cannot be asked: {error}") from None
    if _UNREACHED in done.errors:
        raise UserError(
            "the package index cannot be reached: no network, or pip is told of one that is not there"
        )
    if done.code and "No matching distribution" not in done.errors:
        told = done.errors.strip().splitlines()[-1:] or ["no reason given"]
        raise UserError(f"the package index cannot be asked: {told[0]}")
    return done.output


DAY, HOUR = 86_400.0, 3_600.0
"""How long an answer holds, and how long it is not asked again where there was none."""
NOT_ASKED = "the package index was not asked (--offline)"
_RELEASE = Text(r"[0-9A-Za-z.+_-]{0,64}")
_ANSWER = Fields({"asked": float, "release": _RELEASE, "early": _RELEASE, "why": Text(most=1000)})


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest release, and `early`, a pre-release that is newer; `why` says why there is none."""

    release: str = ""
    early: str = ""
    why: str = ""

    @property
    def all(self) -> tuple[str, ...]:
        """The release and the pre-release, as far as there are any."""
        return tuple(filter(None, (self.release, self.early)))


def newest_of(package: str, *, offline: bool = False) -> Newest:
    """The newest release of a package with a wheel for this machine, from the cache or from the index.

    Without a network, or `offline`, nothing is raised: the answer says why it is empty.
    """
    path = cache_folder() / "newest" / f"{package}.json"
    known = _kept(path)
    if known is not None:
        return known
    if offline:
        return Newest(why=NOT_ASKED)
    found = _asked(package)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_fresh(path, json.dumps({"asked": time.time(), **asdict(found)}, sort_keys=True))
    return found


def _asked(package: str) -> Newest:
    try:
        offered = newest_releases(package, nightly=True)
    except UserError as error:
        return Newest(why=str(error))
    release = next((each for each in reversed(offered) if not is_early(each)), "")
    is_newer = not release or order_of(offered[-1]) > order_of(release)
    return Newest(release, offered[-1] if is_newer else "")


def _kept(path: Path) -> Newest | None:
    """The answer in the cache, while it holds; one that cannot be read is none."""
    try:
        facts: Mapping[str, Any] = held_to(read_json(path), _ANSWER, str(path)) if path.exists() else {}
    except UserError:
        return None
    if not facts or not 0 <= time.time() - facts["asked"] < (HOUR if facts["why"] else DAY):
        return None
    return Newest(facts["release"], facts["early"], facts["why"])
