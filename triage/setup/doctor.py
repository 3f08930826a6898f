"""What works here: each part is tried, not only looked for.

Nothing that may be missing is imported before it was seen to be there.
"""

import importlib.metadata
import platform
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

from corpus.case import Case
from corpus.errors import UserError
from corpus.graphs.program import REF, Binding, Graph, GraphProgram, Input
from corpus.target import Target
from oracles.backends import backends, find_backend
from oracles.extras import comes_when_asked, comes_with_others, how_to_install, provide
from oracles.judge import Judge, in_short
from oracles.sandbox.sandbox import Sandbox, SandboxError, describe_isolation
from oracles.verdict import Run
from triage.console.foot import doing
from triage.console.output import quoted
from triage.language import language_of
from triage.projects import GENERAL, project_of, project_of_package, projects
from triage.setup.contract import ABILITIES, keeps_contract


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


def examine_system(database: Path, deep: bool = False) -> Iterator[Finding]:
    """Everything, from the system to the database; what needs a missing core package is not tried.

    With `deep` every target runs a model.
    """
    yield _system()
    packages = list(_packages())
    yield from packages
    if all(package.works for package in packages if package.core):
        yield from try_targets(CORE_PACKAGES, deep)
        yield from try_sandbox()
        yield _database(database)


def _system() -> Finding:
    works = sys.platform == "linux" and platform.machine() in MACHINES
    text = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    return Finding("system", works, text, True, "" if works else "use Linux on x86-64 or aarch64")


def _packages() -> Iterator[Finding]:
    others = (name for each in projects().values() for name in (each.package, *each.companions))
    for name in dict.fromkeys((*CORE_PACKAGES, *others)):
        core = name in CORE_PACKAGES
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            yield Finding(f"package {name}", False, "not installed", core, _how_to_get(name))
        else:
            yield Finding(f"package {name}", True, version, core)


def _how_to_get(package: str) -> str:
    if comes_when_asked(package):
        return "nothing: installed when a target first asks for it"
    return how_to_install(package)


def _database(path: Path) -> Finding:
    from triage.store.database import Store
    from triage.store.maintenance.vacuum import examine

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


def try_targets(core_packages: Collection[str], deep: bool = False) -> Iterator[Finding]:
    """Try the targets side by side; those that run a core package on the CPU are core.

    One target of each package runs a tiny model; the others rest on it unless `deep`. Importing a framework
    takes most of the time, and inductor compiles for seven CPU seconds.
    """
    names = [name for name in backends() if name != REFEREE]
    targets = [Target(name, device) for name in names for device in project_of(name).devices]
    tried = [each for each in targets if deep or each.backend == _first_of_package(each.backend)]
    if deep:
        provide(*filter(comes_with_others, (backends()[name].package for name in names)))
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
    return f"not run, but {first} works; crux doctor --deep runs a model", problem


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
            runs = judge.runs(_tiny_case(target), own)
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


def _tiny_case(target: Target) -> Case:
    """`y = Relu(x)` of two floats."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "tiny", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return Case("onnx", model.SerializeToString(), {"x": np.array([-1, 2], np.float32)}, target)


def _tiny_graph(format: str) -> Case:
    """The same in another format."""
    main = Graph(
        (Input("x", "float32", (2,)),), (Binding("y", language_of(format).relu, ({REF: "x"},)),), ("y",)
    )
    program = GraphProgram(format, main, facts={"main": "main"})
    return Case(format, program.to_bytes(), {"x": np.array([-1, 2], np.float32)})


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
