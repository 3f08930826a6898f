"""A report's folder and its zip: written whole or not at all, and the same bytes every time."""

import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats import find_format
from corpus.outputs import held, make_folder
from corpus.reading import SCRATCH
from corpus.values import write_inputs
from oracles.verdict import Outcome, Phase
from triage.bugs.failures import History
from triage.claim import Claim
from triage.projects import DIES, project_of, runner_of
from triage.repro.proving import TIMES, Proof, Proving
from triage.repro.script import write_script
from triage.repro.short import ShortScripts, short_scripts, shows
from triage.repro.source import Source
from triage.store.blobs import digest_file

MODES = ("code", "bytes")
TIMES_IF_STEADY, TIMES_IF_UNFINISHED = 1, 2
"""Processes that must show a bug by `repro.py` if it showed in every run of a reduction, and of a search that
was ended early.
"""
SHORT_TIMES = 1
"""Processes that must show it by the short script: reduction or `repro.py` have shown that it is steady."""
ALONE = (Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY, Outcome.PERF)
"""Outcomes that other processes at the same time could bring about."""


@dataclass(frozen=True)
class Proven:
    """The self-contained script, and the short one where there is one that shows the bug, also as a test."""

    script: str
    proof: Proof
    short: str = ""
    printed: str = ""
    test: str = ""

    @property
    def said(self) -> str:
        """How often which script showed the bug."""
        proof = self.proof
        if not self.short:
            processes = "process" if proof.times == 1 else "processes"
            return f"`repro.py` showed the bug in {proof.shown} of {proof.times} fresh {processes}"
        shown, times = proof.shown + SHORT_TIMES, proof.times + SHORT_TIMES
        return f"`repro.py` and `short.py` showed the bug in {shown} of {times} fresh processes"


class Scripts:
    """The scripts of one claim, their proofs under way; a context manager that ends them."""

    def __init__(
        self, case: Case, claim: Claim, source: Source | None, python: str, history: History
    ) -> None:
        self._case, self._claim, self._source, self._python = case, claim, source, python
        self._beside = files_beside(case)
        self._times = times_of(history.reduction)
        self._is_alone = claim.expectation.outcome in ALONE
        self._stack = ExitStack()
        self._root = Path(self._stack.enter_context(TemporaryDirectory(prefix="crux-repro-")))

    def __enter__(self) -> Self:
        found = short_scripts(self._case, self._claim, self._source)
        self._written_short = ShortScripts() if self._is_alone else found
        short = self._written_short.script
        self._first = self._begin(self._written(MODES[0]))
        self._short = self._begin(short, shows(self._claim, found.dies), SHORT_TIMES) if short else None
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def proven(self) -> Proven:
        """The most readable scripts that show the bug, else the first one. Waits for the proofs."""
        script, proof = self._self_contained()
        if self._short is None:
            return Proven(script, proof)
        text, proving = self._short
        shown = proving.proof()
        if shown.holds:
            return Proven(script, proof, text, shown.text, self._written_short.test)
        return Proven(script, proof)

    def _self_contained(self) -> tuple[str, Proof]:
        script, proving = self._first
        first = script, proving.proof()
        if first[1].holds:
            return first
        for other in self._others():
            script, proving = self._begin(other)
            proof = proving.proof()
            if proof.holds:
                return script, proof
        return first

    def _others(self) -> Iterator[str]:
        """Scripts to try where the most readable one shows nothing."""
        if self._source is None:
            yield self._written(MODES[1])
        expectation = self._claim.expectation
        dies = expectation.outcome is Outcome.CRASH and expectation.failing.phase is Phase.EXECUTE
        target = self._case.target
        if dies and target is not None and runner_of(target.backend, self._case.format).guards:
            closed = replace(self._claim, expectation=replace(expectation, misuse=DIES))
            yield write_script(self._case, closed, MODES[0], self._source)

    def _written(self, mode: str) -> str:
        return write_script(self._case, self._claim, mode, self._source)

    def _begin(self, script: str, is_shown: Any = None, times: int = 0) -> tuple[str, Proving]:
        claim, target = self._claim, self._case.target
        along = project_of(target.backend).taken_along if target else ()
        proving = Proving(
            script,
            self._beside,
            self._python,
            claim.seconds,
            claim.memory,
            times=times or self._times,
            shows=is_shown,
            together=not self._is_alone,
            root=self._root,
            hidden=[name for name in along if name not in script],
        )
        return script, self._stack.enter_context(proving)


def times_of(reduction: Mapping[str, Any]) -> int:
    """In how many processes a script must show the bug: fewer if a reduction saw it every time."""
    if reduction.get("failure_rate") != 1.0:
        return TIMES
    return TIMES_IF_STEADY if reduction.get("minimal") else TIMES_IF_UNFINISHED


def files_beside(case: Case) -> dict[str, bytes | Path]:
    """The files that a script may read, at the places where the report has them."""
    program = find_format(case.format).program_file
    files: dict[str, bytes | Path] = {program: case.program, "inputs.npz": inputs_file(case)}
    return files | {file.location: file.path for file in case.external}


def inputs_file(case: Case) -> bytes:
    """The bytes of the case's `inputs.npz`."""
    buffer = BytesIO()
    write_inputs(buffer, case.inputs)
    return buffer.getvalue()


SUMS = "SHA256SUMS"
MOST_SUMS = 1 << 24
OLDEST = (1980, 1, 1, 0, 0, 0)


def write_bundle(folder: Path, files: Mapping[str, bytes], large: Mapping[str, Path]) -> Path:
    """Write `folder` and `folder.zip`, replacing an earlier report of the same name; the zip's path.

    `large` are files to copy without reading them into memory.
    """
    folder = folder if folder.name not in ("", "..") else Path(os.path.abspath(folder))
    make_folder(folder.parent)
    target = folder.with_name(folder.name + ".zip")
    scratch = tempfile.TemporaryDirectory(prefix=SCRATCH, dir=folder.parent)
    with held(folder, folder.with_name(f".{folder.name}.crux-lock")), scratch as name:
        _must_be_ours(folder)
        _must_be_our_zip(target, folder.name)
        made, archive = Path(name) / "made", Path(name) / "made.zip"
        _fill(made, files, large)
        _zip(made, archive, folder.name)
        if folder.exists():
            os.replace(folder, Path(name) / "earlier")
        os.replace(made, folder)
        os.replace(archive, target)
    return target


def _must_be_ours(folder: Path) -> None:
    """Raises `UserError` unless the folder is empty, or all in it is as an earlier report left it."""
    if not os.path.lexists(folder):
        return
    if folder.is_symlink() or not folder.is_dir():
        raise UserError(f"{folder}: is there already and no report; name another folder with -o")
    wanted = _sums(_text_of(folder / SUMS))
    for name, path in sorted((str(path.relative_to(folder)), path) for path in folder.rglob("*")):
        is_kept = path.is_dir() and not path.is_symlink()
        if not is_kept and name != SUMS and (path.is_symlink() or wanted.get(name) != digest_file(path)):
            raise UserError(f"{path}: is not as a report left it; move it, or name another folder with -o")


def _must_be_our_zip(path: Path, name: str) -> None:
    """Raises `UserError` unless there is no such file, or an earlier report's zip."""
    if not os.path.lexists(path):
        return
    try:
        if not path.is_file():  # a pipe would be waited for
            raise ValueError
        with zipfile.ZipFile(path) as archive:
            inside = archive.getinfo(f"{name}/{SUMS}")
            wanted = _sums(archive.read(inside).decode() if inside.file_size <= MOST_SUMS else "")
            names = {f"{name}/{SUMS}", *(f"{name}/{each}" for each in wanted)}
            is_ours = set(archive.namelist()) == names
    except (OSError, ValueError, LookupError, RuntimeError, zipfile.BadZipFile, zlib.error):
        is_ours = False
    if not is_ours:
        raise UserError(f"{path}: is there already and no report's zip; move it, or name another -o")


def _text_of(path: Path) -> str:
    if path.is_symlink() or not path.is_file() or path.stat().st_size > MOST_SUMS:
        return ""
    return path.read_text(encoding="utf-8", errors="replace")


def _sums(text: str) -> dict[str, str]:
    """The digest of each file that a list names."""
    pairs = (line.partition("  ") for line in text.splitlines())
    return {name: digest for digest, _, name in pairs}


def _fill(folder: Path, files: Mapping[str, bytes], large: Mapping[str, Path]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for name, source in large.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path)
    (folder / SUMS).write_text("".join(f"{digest_file(path)}  {name}\n" for name, path in _files(folder)))


def _files(folder: Path) -> list[tuple[str, Path]]:
    return sorted((str(path.relative_to(folder)), path) for path in folder.rglob("*") if path.is_file())


def _zip(folder: Path, archive: Path, name: str) -> None:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as made:
        for inside, path in _files(folder):
            member = zipfile.ZipInfo(f"{name}/{inside}", OLDEST)
            member.external_attr = 0o644 << 16
            member.compress_type = zipfile.ZIP_DEFLATED
            with path.open("rb") as source, made.open(member, "w", force_zip64=True) as target:
                shutil.copyfileobj(source, target, 1 << 20)
