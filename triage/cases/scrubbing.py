"""An issue's text or a script becomes cases: run once, contained, with what it gives to frameworks kept."""

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from corpus.case import INPUTS_FILE, Case
from corpus.errors import UserError
from corpus.formats import find_format
from corpus.load import Imported, open_case
from corpus.reading import read_bytes, read_json, read_text
from corpus.target import Target
from corpus.values import read_inputs, stored_names, write_inputs
from oracles.sandbox.scripts import CALLED, Complaint, Note, ScriptRun, from_answer, open_foreign, script_run
from oracles.verdict import Limits, Outcome
from oracles.worker.tvm.passes import PASSES
from triage.cases.issue_code import (
    Script,
    on_cpu,
    scripts_in,
    with_usual_imports,
    without_import,
)
from triage.console.options import CaseOptions

MOST_PROGRAM = 1 << 30
TARGETS = re.compile(r"ort|tvm|inductor(@backend=aot_eager\w*)?|torch-onnx(@exporter=dynamo)?")
NO_GPU = re.compile(
    r"not compiled with CUDA|No CUDA GPUs|NVIDIA driver|on a CUDA device|device type at start .* cuda"
)
ABSENT = re.compile(r"ModuleNotFoundError: No module named '(\w+)")
CHANGES = 4
"""How often a script is changed to run where a package or a GPU is not there."""
FITTING = {
    "crash": {Outcome.CRASH},
    "hang": {Outcome.TIMEOUT},
    "difference": {Outcome.MISMATCH},
    "exception": {Outcome.EXCEPTION, Outcome.MISMATCH},
    "caught": {Outcome.EXCEPTION},
}
"""The outcomes of a case that fit what its script complains of."""


@dataclass
class Scrubbed:
    """A script that was run: what it complains of, and its cases, the likeliest first.

    `beside` are the files that it needs; `notes` say what was changed to run it, and what could not be kept.
    """

    script: str
    complaint: Complaint
    cases: list[Case]
    beside: tuple[Path, ...] = ()
    notes: list[str] = field(default_factory=list)

    def fits(self, outcome: str) -> bool:
        """Whether a case of that outcome is likely to be what the script complains of."""
        return Outcome(outcome) in FITTING.get(self.complaint.kind, set())

    def likeliest(self, judged: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
        """Of the documents of judged cases the first that fails as the script does, else any."""
        failing = [each for each in judged if each["bug"]]
        return next((each for each in failing if self.fits(each["outcome"])), next(iter(failing), None))


def take(path: Path, options: CaseOptions, printed: str = "") -> Scrubbed:
    """The first script of a file that complains, else the one of which most was kept; raises `UserError`."""
    if not options.trust:
        raise UserError(f"{path}: its code is run, contained; give --trust if you trust it")
    best: Scrubbed | None = None
    for script in _scripts(path):
        found = _taken(script, path, options, printed)
        if best is None or (bool(found.complaint), len(found.cases)) > (
            bool(best.complaint),
            len(best.cases),
        ):
            best = found
        if best.complaint:
            break
    if best is None:
        raise UserError(f"{path}: holds no Python code that could be run; name an issue's text or a script")
    return best


def _scripts(path: Path) -> list[Script]:
    if not path.is_file():
        raise UserError(f"{path}: no such file; name an issue's text or a script")
    text = read_text(path)
    if path.suffix == ".py":
        try:
            return [with_usual_imports(text)]
        except SyntaxError as error:
            found = scripts_in(text)
            if not found:
                raise UserError(f"{path}: not Python ({error.msg}, line {error.lineno}); mend it") from None
            return found
    return scripts_in(text)


def _taken(script: Script, path: Path, options: CaseOptions, printed: str) -> Scrubbed:
    """Run a script, changed where it lacks a package that it does not use or a GPU."""
    notes, beside = list(script.notes), tuple(_beside(path, script.text))
    text = script.text
    for _ in range(CHANGES):
        with run_of(text, options, beside) as run:
            changed, remark = _mended(text, run)
            if not changed:
                cases = list(_cases(run, options, path, notes))
                return Scrubbed(text, run.complaint(printed), cases, beside, notes)
        text = changed
        notes.append(remark)
    raise UserError(f"{path}: lacks packages that are not installed: {'; '.join(notes)}")


@contextmanager
def run_of(text: str, options: CaseOptions, beside: tuple[Path, ...]) -> Iterator[ScriptRun]:
    """Run a script within the limits of the command line, under the Python of `--target` if it has one."""
    python = options.target_of(None).get("python") if options.target else ""
    with script_run(text, options.limits, beside=beside, python=python) as run:
        yield run


def _mended(text: str, run: ScriptRun) -> tuple[str, str]:
    """The script changed so that it may run here, and a remark; empty where nothing is to be changed."""
    absent = ABSENT.search(run.text)
    if absent and run.code:
        return without_import(text, absent[1]), f"without its import of {absent[1]}, which is not installed"
    if NO_GPU.search(run.text) and on_cpu(text) != text:
        return on_cpu(text), "on the CPU, as no GPU is used here"
    return "", ""


def _beside(path: Path, text: str) -> Iterator[Path]:
    """Yield the files beside a script that its text names."""
    words = set(re.findall(r"[\w.-]+", text))
    for each in sorted(path.resolve().parent.iterdir()):
        is_named = each.name in words or (each.suffix in ("", ".py") and each.stem in words)
        if is_named and each.name != path.name and not each.name.startswith("."):
            yield each


# Cases


def _cases(run: ScriptRun, options: CaseOptions, path: Path, notes: list[str]) -> Iterator[Case]:
    """Yield what was kept as cases, each once: first what was under way when it failed, then the latest."""
    called = sorted(run.events(CALLED), key=run.urgency)
    notes += dict.fromkeys(f"{each.call}: {each.unkept}" for each in called if each.unkept)
    seen: set[tuple[str, str]] = set()
    bare: set[tuple[bytes, str]] = set()
    for each in called:
        if each.folder is None or not TARGETS.fullmatch(each.target):
            continue
        if each.passes and (each.passes not in PASSES or run.ended_well(each)):
            continue  # what a pass has made is compiled later, or not at all
        try:
            with _laid_out(each.folder, _arguments(run, each)) as folder:
                opened = open_case(
                    folder, seed=options.seed or 0, memory_bytes=options.memory << 20, trust=True
                )
            opened = opened.relocated.with_passes((each.passes,) if each.passes else opened.passes)
        except UserError as error:
            notes.append(f"{each.call}: {error}")
            continue
        target = f"{each.target}@threads={each.threads}" if each.threads > 1 else each.target
        key, program = (opened.case_id, target), (opened.program, target)
        has_inputs = (each.folder / INPUTS_FILE).exists()
        if key not in seen and (has_inputs or program not in bare):
            seen.add(key)
            bare.add(program)
            of = options.target_of(Target.of_data(target))
            yield replace(opened, target=of, origin=str(path), notes=(*opened.notes, f"of {each.call}"))


def _arguments(run: ScriptRun, call: Note) -> Path | None:
    """The arguments with which a function was called after this call and before the next one."""
    after = run.notes[run.notes.index(call) + 1 :]
    for each in after:
        if each.event == "fed":
            return each.folder
    return None


@contextmanager
def _laid_out(kept: Path, arguments: Path | None) -> Iterator[Path]:
    """A case folder of what the recorder kept; raises `UserError` where that is no case."""
    folders = [each for each in (kept, arguments) if each is not None]
    if any(each.is_symlink() for folder in folders for each in (folder, *folder.iterdir())):
        raise UserError("what was kept holds a link; nothing is taken from there")
    with tempfile.TemporaryDirectory(prefix="crux-") as made:
        folder = Path(made)
        for name in ("model.onnx", INPUTS_FILE):
            if (kept / name).is_file():
                shutil.copyfile(kept / name, folder / name)
        if (kept / "program.json").is_file():
            answer = read_json(kept / "program.json", MOST_PROGRAM)
            _write(folder, "torch", from_answer("torch", answer, "the script's graph"), None)
        if (kept / "module.json").is_file():
            _write(folder, "relax", open_foreign(None, Limits(), "relax", kept / "module.json"), arguments)
        elif arguments is not None and not (folder / INPUTS_FILE).exists():
            _write_arguments(folder, "onnx", read_bytes(folder / "model.onnx", MOST_PROGRAM), arguments)
        yield folder


def _write(folder: Path, name: str, found: Imported, arguments: Path | None) -> None:
    """Write a program and its inputs."""
    name = found.format or name
    (folder / find_format(name).program_file).write_bytes(found.program)
    if found.inputs:
        write_inputs(folder / INPUTS_FILE, found.inputs)
    elif arguments is not None:
        _write_arguments(folder, name, found.program, arguments)


def _write_arguments(folder: Path, name: str, program: bytes, arguments: Path) -> None:
    """Write the arguments that a function was called with as inputs, by their places, where they fit."""
    taken = find_format(name)
    types = taken.input_types(taken.parse(program), "the script's program")
    wanted = {name: declared for name, declared in types.items() if declared.required}
    source = arguments / "arguments.npz"
    if len(stored_names(source)) >= len(wanted):
        given = read_inputs(source, {str(at): each for at, each in enumerate(wanted.values())})
        write_inputs(folder / INPUTS_FILE, dict(zip(wanted, given.values(), strict=True)))
