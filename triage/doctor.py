"""What works here: each part is tried, not only looked for.

Nothing that may be missing is imported before it was seen to be there.
"""

import platform
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from corpus.case import Case
from corpus.errors import UserError
from corpus.graphs.program import REF, Binding, Graph, GraphProgram, Input
from corpus.target import Target
from corpus.values import Value
from oracles.abilities import Backend
from oracles.backends import backends, find_backend
from oracles.extras import comes_when_asked, how_to_install, installed_release
from oracles.judge import Judge, in_short
from oracles.sandbox.sandbox import Job, Sandbox, SandboxError, describe_isolation
from oracles.verdict import Config, Phase, Run, Status
from triage.console.foot import doing
from triage.console.output import quoted
from triage.language import language_of
from triage.projects import GENERAL, project_of, project_of_package, projects


@dataclass(frozen=True)
class Finding:
    """One part: whether it works, what there is to say of it, and whether crux is broken without it.

    `advice` is what to do where it does not work; empty where nothing is to be done.
    """

    part: str
    works: bool
    text: str
    core: bool
    advice: str = ""


CORE_PACKAGES = (
    "onnx",
    "onnx-ir",
    "onnxruntime",
    "numpy",
    "ml_dtypes",
    "typer",
    "rich",
    "sqlite-utils",
    "rapidfuzz",
    "jinja2",
)
MACHINES = ("x86_64", "aarch64")


def examine_system(database: Path) -> Iterator[Finding]:
    """Everything, from the system to the database; what needs a missing core package is not tried."""
    yield _system()
    packages = list(_packages())
    yield from packages
    if all(package.works for package in packages if package.core):
        yield from try_targets(CORE_PACKAGES)
        yield from try_sandbox()
        yield _database(database)


def _system() -> Finding:
    works = sys.platform == "linux" and platform.machine() in MACHINES
    text = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return Finding("system", works, text, True, "" if works else "use Linux on x86-64 or aarch64")


def _packages() -> Iterator[Finding]:
    others = (name for each in projects().values() for name in (each.package, *each.companions))
    for name in dict.fromkeys((*CORE_PACKAGES, *others)):
        release, core = installed_release(name), name in CORE_PACKAGES
        advice = "" if release else _how_to_get(name)
        yield Finding(f"package {name}", bool(release), release or "not installed", core, advice)


def _how_to_get(package: str) -> str:
    if comes_when_asked(package):
        return "nothing: installed when a target first asks for it"
    return how_to_install(package)


def _database(path: Path) -> Finding:
    from triage.store.database import Store
    from triage.store.vacuum import examine

    if not path.exists():
        return Finding("database", True, f"{path}: none yet", core=False)
    try:
        with Store(path) as store:
            found = examine(store)
    except UserError as error:
        advice = "name another database with --db, or move this one away"
        return Finding("database", False, str(error), core=True, advice=advice)
    text = f"{path}: {found['failures']} failures in {found['clusters']} clusters"
    problems = found["problems"]
    advice = f"crux db check --db {quoted(str(path))} lists all" if problems else ""
    return Finding("database", not problems, f"{text}; {problems[0]}" if problems else text, True, advice)


REFEREE = "golden"
"""The referee of Relax programs: it runs no models of ONNX, and nobody tests it."""
NVIDIA = "/dev/nvidiactl"
"""There where the driver of an NVIDIA device is loaded."""
NO_DEVICE = "no NVIDIA device here"


def try_targets(core_packages: Collection[str]) -> Iterator[Finding]:
    """Try the targets side by side; those that run a core package on the CPU are core.

    One target of each package runs a tiny model; the others rest on it. Importing a framework
    takes most of the time, and inductor compiles for seven CPU seconds.
    """
    names = [name for name in backends() if name != REFEREE]
    targets = [Target(name, device) for name in names for device in project_of(name).devices]
    tried = [each for each in targets if each.backend == _first_of_package(each.backend)]
    doing(f"trying {len(tried)} targets side by side, which imports every framework")
    with in_short(), ThreadPoolExecutor(max_workers=len(tried)) as pool:
        found = dict(zip(tried, pool.map(_try_target, tried), strict=True))
    for target in targets:
        text, problem = found.get(target) or _told_of_other(target, found)
        core = backends()[target.backend].package in core_packages and target.device == "cpu"
        yield Finding(f"target {target}", not problem, problem or text, core, _advice(target, problem))


def _first_of_package(name: str) -> str:
    """The target that stands for all of its package: the one that is called like the module."""
    package = backends()[name].package
    module = _module_of(name)
    alike = [each for each, backend in backends().items() if backend.package == package and each != REFEREE]
    return min(alike, key=lambda each: (each != module, each))


def _is_there(module: str) -> bool:
    """Whether a framework can be imported, or one of the packages within it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _module_of(name: str) -> str:
    """What the framework of a target is imported as."""
    runners = project_of_package(backends()[name].package).runners
    return runners[0].module if runners else "onnx"


def _told_of_other(target: Target, found: Mapping[Target, tuple[str, str]]) -> tuple[str, str]:
    """What the trial of another target of the same package says of this one, which is not run."""
    first = replace(target, backend=_first_of_package(target.backend))
    _, problem = found[first]
    programs = backends()[target.backend].programs
    if not problem and programs and not any(map(shutil.which, programs)):
        return "", f"no {' or '.join(programs)} here"
    return f"not run, but {first} works", problem


def _try_target(target: Target) -> tuple[str, str]:
    """Run tiny programs on a target; return its result, and why it fails or is wrong."""
    if target.device == "cuda" and not Path(NVIDIA).exists():
        return "", NO_DEVICE
    if not _is_there(_module_of(target.backend)):
        return "", "not installed"
    formats: tuple[str, ...] = ()
    try:
        with Judge(target) as judge:
            own = tuple(config for config in judge.configs[:2] if not config.backend)
            runs = judge.runs(Case("onnx", _model("Relu", X), {"x": X}, target), own)
            others = (name for graphs in judge.backend.graphs for name in graphs.formats)
            formats = tuple(name for name in others if language_of(name).relu)
            runs += tuple(run for name in formats for run in judge.runs(_tiny_graph(name), own[:1]))
    except (UserError, SandboxError) as error:
        return "", " ".join(str(error).split())[:160]
    return _told(runs, formats)


def _told(runs: Sequence[Run], formats: Sequence[str]) -> tuple[str, str]:
    """Sum up the runs in words, and say what is wrong with them."""
    failed = next((run for run in runs if not run.is_ok), None)
    if failed is not None:
        return "", " ".join(f"{failed.config.label}: {failed.status.value}: {failed.message}".split())[:160]
    right = all(np.array_equal(np.asarray(run.outputs["y"]), [0.0, 2.0]) for run in runs if run.outputs)
    done = (
        " and ".join(["runs a model", *(f"a {name} program" for name in formats)])
        if all(run.outputs for run in runs)
        else "compiles a model; there is no device to run it"
    )
    return done, "" if right else "gives a wrong result for Relu"


def _advice(target: Target, problem: str) -> str:
    """Advise on a target that does not work."""
    package = backends()[target.backend].package
    if not problem:
        return ""
    if problem == NO_DEVICE:
        return "nothing, unless you mean to test on a GPU"
    if target.device == "cuda":
        return f"install NVIDIA's driver, and a build of {package} for CUDA"
    if not _is_there(_module_of(target.backend)):
        return _how_to_get(package)
    if backends()[target.backend].programs and problem.startswith("no "):
        return "install g++"
    return f"reinstall {package} within constraints.txt"


def _tiny_graph(format: str) -> Case:
    """The same in another format."""
    main = Graph(
        (Input("x", "float32", (2,)),), (Binding("y", language_of(format).relu, ({REF: "x"},)),), ("y",)
    )
    program = GraphProgram(format, main, facts={"main": "main"})
    return Case(format, program.to_bytes(), {"x": X})


ABILITIES = {
    "baseline": "a backend to compare with, where there is no un-optimised configuration",
    "passes": "`crux passes`, and the names of passes in reports",
    "sequences": "passes in any order: `@passes=A,B`",
    "tells_operators": "campaigns of the operators that it has",
    "libraries": "coverage of its machine code",
}
"""Fields of `Backend` that may be left out, and what each gives."""

X = np.array([-1, 2], np.float32)


class Broken(Exception):
    """A clause that the backend does not keep; its text says how."""


@dataclass(frozen=True)
class Trial:
    """A backend under trial, in a sandbox of its own."""

    backend: Backend
    configs: tuple[Config, ...]
    sandbox: Sandbox

    def run(self, op: str, value: Value = X, outputs: tuple[str, ...] | None = None) -> tuple[Run, ...]:
        """The runs of `y = op(x)`, `z = op(y)` in every configuration."""
        return self.sandbox.run(
            Job(_model(op, np.asarray(value)), {"x": value}, self.configs, outputs=outputs)
        )


def _model(op: str, x: np.ndarray) -> bytes:
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    ends = [helper.make_tensor_value_info(name, kind, x.shape) for name in "xyz"]
    nodes = [helper.make_node(op, ["x"], ["y"]), helper.make_node(op, ["y"], ["z"])]
    graph = helper.make_graph(nodes, "trial", ends[:1], ends[1:])
    model: onnx.ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    return bytes(model.SerializeToString())


Clause = Callable[[Trial], str]
"""Tries one thing and says what was seen; raises `Broken`."""


def _is_configured(trial: Trial) -> str:
    labels = [config.label for config in trial.configs]
    if len(set(labels)) < len(labels) or not labels:
        raise Broken(f"two configurations share a label, or there is none: {labels}")
    if len(labels) < 2 and not trial.backend.baseline:
        raise Broken("there is one configuration and no baseline: nothing to compare")
    if said := trial.backend.classify(Run(trial.configs[0], Status.OK, Phase.EXECUTE)):
        raise Broken(f"classify calls a good run {said!r}; it gives '' for what may be a bug")
    return ", ".join(labels)


def _starts(trial: Trial) -> str:
    release = trial.sandbox.facts["version"]
    if not isinstance(release, str) or not release:
        raise Broken(f"load() gives {release!r}; it gives the framework's version as text")
    return f"{trial.backend.package} {release}"


def _runs_a_model(trial: Trial) -> str:
    for run in trial.run("Neg"):
        _must_give(run, {"y": -X, "z": X})
        if run.phase is not Phase.EXECUTE:
            raise Broken(f"{run.config.label}: it ends in the phase {run.phase}; call enter('execute')")
    return "in every configuration"


def _must_give(run: Run, wanted: dict[str, Value]) -> None:
    if not run.is_ok:
        raise Broken(f"{run.config.label}: {run.error or run.status.value}: {run.message}")
    if sorted(run.outputs) != sorted(wanted):
        raise Broken(f"{run.config.label}: outputs {sorted(run.outputs)} where {sorted(wanted)} are wanted")
    for name, value in wanted.items():
        found, right = np.asarray(run.outputs[name]), np.asarray(value)
        if found.dtype != right.dtype or not np.array_equal(found, right):
            raise Broken(f"{run.config.label}: {name} is {found.dtype} {found} and not {right.dtype} {right}")


def _gives_what_is_asked(trial: Trial) -> str:
    for run in trial.run("Neg", outputs=("y",)):
        _must_give(run, {"y": -X})
    return "and no other output"


def _refuses(trial: Trial) -> str:
    for run in trial.run("NoSuchOperator"):
        if run.status is not Status.EXCEPTION:
            raise Broken(f"{run.config.label}: {run.status.value}; raise an exception")
        if (said := trial.backend.classify(run)) != "unsupported":
            raise Broken(f"classify calls it {said!r} and not 'unsupported': {run.message}")
    return "is unsupported"


CLAUSES: tuple[tuple[str, Clause, str], ...] = (
    (
        "configurations",
        _is_configured,
        "configs(target): the un-optimised one first, each with its own label",
    ),
    (
        "load",
        _starts,
        "load() imports the framework in the worker and returns its version; it starts no thread",
    ),
    ("runs a model", _runs_a_model, "run(program, inputs, settings, outputs, enter)"),
    (
        "outputs",
        _gives_what_is_asked,
        "return the tensors named in outputs, all of the model's if it is None",
    ),
    ("unknown operator", _refuses, "raise, and say in classify() that this error means unsupported"),
)
OF_MODELS = 2
"""Where the clauses begin that need ONNX models."""


def keeps_contract(backend: Backend) -> Iterator[tuple[str, str, str]]:
    """Yield each clause's name with what was seen, and what to do where it is not kept, else empty."""
    takes_models = any(language_of(each).has_model for each in backend.formats)
    clauses = CLAUSES if takes_models else CLAUSES[:OF_MODELS]
    with Sandbox(backend.name) as sandbox:
        trial = Trial(backend, backend.configs(Target(backend.name)), sandbox)
        for part, clause, advice in clauses:
            try:
                yield part, clause(trial), ""
            except (Broken, SandboxError) as error:
                yield part, " ".join(str(error).split())[:200], advice


def examine_backend(name: str) -> Iterator[Finding]:
    """What each backend must do, tried on this one, and the abilities that it has or leaves out."""
    backend = find_backend(name)
    for part, text, advice in keeps_contract(backend):
        yield Finding(part, not advice, text, core=True, advice=advice)
    for ability, gives in ABILITIES.items():
        has = bool(getattr(backend, ability))
        yield Finding(f"ability {ability}", has, "has it" if has else f"would give {gives}", core=False)
    project = project_of(name)
    text = project.name if project is not GENERAL else "would give reports their script and form"
    yield Finding("project", project is not GENERAL, text, core=False)


def try_sandbox() -> Iterator[Finding]:
    """Yield the sandbox's protections, each in force or not."""
    try:
        with Sandbox("ort") as sandbox:
            facts = dict(sandbox.facts)
    except (UserError, SandboxError) as error:
        text = " ".join(str(error).split())[:160]
        yield Finding("sandbox", False, text, core=True, advice="docs/safety.md says what it needs")
        return
    yield Finding("sandbox", True, "runs cases in workers of their own", core=True)
    for name, text in describe_isolation(facts).items():
        advice = "" if text == "in force" else "the other layers hold; docs/safety.md says more"
        yield Finding(f"sandbox: {name}", text == "in force", text, core=False, advice=advice)
    compiler = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)
    text = compiler or "none: crashes are told by their signal alone, and inductor cannot compile"
    yield Finding("C compiler", compiler is not None, text, False, "" if compiler else "install gcc and g++")
