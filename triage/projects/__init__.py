"""The compilers as projects: what their maintainers call things, ask for and install, one file each.

Each module here has a `PROJECT`, which is found by itself (`tvm` and `pytorch` are folders, since their scripts
are of several kinds), and other distributions bring theirs by entry points of the group `tensorcrux.projects`;
a part that a project leaves out has a default. In comes the name of a backend, a package or a form; out comes
the `Project`. Everything in `triage` may ask.
"""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from corpus.errors import UserError
from oracles.backends import installed
from oracles.verdict import Config, Phase, Run

Release = tuple[int, ...]
"""The first numbers of a release, such as (0, 27)."""


DIES = "dies"
"""The misuse of memory of a program that ends the process between closed pages, and not elsewhere."""


@dataclass(frozen=True)
class ClaimedRun:
    """The content of a script: the failing configuration, and all of the target's own by label.

    `passes` are those that the case runs itself; `compares_values` says whether two results are compared that
    should be the same on every run; `phase` is the one that the failing run reached. `misuse` says how it
    misuses memory, if only a run between closed pages shows that. `earlier` are the shapes of inputs in runs
    of what is compiled before the one that counts; if the failing one `raises`, so may any of them.
    """

    failing: Config
    own: Mapping[str, Config]
    passes: tuple[str, ...] = ()
    compares_values: bool = False
    phase: Phase = Phase.EXECUTE
    misuse: str = ""
    earlier: tuple[Mapping[str, tuple[int, ...]], ...] = ()
    raises: bool = False

    def passes_of(self, config: Config) -> tuple[str, ...]:
        """The passes that a configuration runs first: its own, else those of the case."""
        own = config.get("passes")
        return own if isinstance(own, tuple) else self.passes

    def repeats(self, config: Config) -> bool:
        """Whether a configuration makes the earlier runs first: each that fails, or whose run is no first one."""
        return bool(self.earlier) and (config == self.failing or not config.get("counts_first"))


@dataclass(frozen=True)
class Printed:
    """The names that code printed by a framework may use besides its own.

    It may import from `modules`; by `__import__` in an expression, from `by_name` as well.
    """

    names: frozenset[str]
    modules: frozenset[str]
    by_name: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ShortScript:
    """A project's part of the script that stands in a report's text, and of the bug as a test of the project.

    `imports`, `program` and `run` are templates: `run` defines what `call(settings, label)` calls to run the
    program in the configuration of that label, and gives the list of its results. `compares` is the module
    whose arrays these are. With `holds` the expected values stand in the script as literals instead of being
    computed by the other configuration. `builds` is a package that only makes the program. `test` is the
    template of a test as the project writes them, about an indented `body`. `dies` is a pattern of what it
    prints where the compiler is a process of its own and dies of a signal.
    """

    imports: str
    run: str
    call: Callable[[Mapping[str, Any], str], str]
    program: str = "{{ source.module }}"
    compares: str = "numpy"
    holds: bool = False
    builds: str = ""
    test: str = ""
    dies: str = ""


@dataclass(frozen=True)
class Runner:
    """A project's part of `repro.py`, for programs of these formats on these backends (empty: of all).

    `part` is the template of that part, which defines `CONFIGS`, `package_version()` and `run(config, path)`;
    `settings` gives the values it asks for. `needs` is what has to be installed besides numpy, `module` what
    the framework is imported as, `imports` stand at the head of the script. `printed` is None where the script
    builds an ONNX model, else what the framework's own code for the program may use. `slow` are the seconds
    that a start takes. `short` is the part of the script that stands in a report's text. `tells` are the
    oracles asked for by name whose ways of running a program the script knows. `guards` are the modules of
    the worker from which a script that shows misuse of memory has what it uses of closed pages.
    """

    needs: tuple[str, ...]
    module: str
    part: str
    settings: Callable[[ClaimedRun], Mapping[str, Any]]
    imports: tuple[str, ...] = ()
    printed: Printed | None = None
    backends: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    slow: float = 0.0
    short: ShortScript | None = None
    tells: frozenset[str] = frozenset()
    guards: tuple[str, ...] = ()

    @property
    def is_onnx(self) -> bool:
        """Whether the script builds an ONNX model."""
        return self.printed is None

    @property
    def has_onnx(self) -> bool:
        """Whether the script may use the `onnx` package."""
        return "onnx" in self.needs

    def takes(self, backend: str, format: str) -> bool:
        """Whether it is for programs of this format on this backend."""
        return backend in (self.backends or (backend,)) and format in (self.formats or (format,))


@dataclass(frozen=True)
class Installing:
    """The way to install a release in a throw-away environment.

    `alone` says that the package runs a model with numpy and nothing else that it declares; `needs` is what
    crux's worker needs besides numpy; `pinned` are companions that pip would choose wrongly, by the first
    numbers of the release; `built_with` are companions whose oldest declared release is the right one.
    `is_huge` says that a release brings gigabytes, which are installed only if a command asks for them.
    """

    alone: bool = False
    needs: tuple[str, ...] = ()
    pinned: Mapping[Release, tuple[str, ...]] = field(default_factory=dict)
    built_with: tuple[str, ...] = ()
    is_huge: bool = False


@dataclass(frozen=True)
class Words:
    """A project's words for configurations: `of(config)` stands behind a verb, "" without a name.

    `kind` stands before a configuration's label in a title, `every` says that all of them fail, `optimising`
    is what the framework does in the phase of optimisation by a configuration.
    """

    of: Callable[[Config], str] = lambda config: ""
    kind: str = "with "
    every: str = ""
    optimising: Callable[[Config], str] = lambda config: "while it optimises the model"


@dataclass(frozen=True)
class Project:
    """A compiler as a project.

    `package` is what pip installs, `variants` other packages of the same code, `companions` what is released
    with it, `beside` other packages whose versions matter. `template`, `issues` and `labels` are of the form in
    which it takes issues; labels are by the failing run, and by whether what reads an ONNX model may be to
    blame. `of_fuzzers` are those of the labels that only made programs get. `environment_tool` is a module that
    prints what its maintainers want to know of a machine. `varied` are backends cheap enough to try other element types on. `weights` are
    the shares of message, operator and site in the distance of two exceptions. `import_script` imports every
    ONNX model in `models/` beside it and prints what each says, where the project has an importer. Its import
    takes the packages `taken_along` too where they are installed, which a script that does not name them
    does without.
    """

    name: str
    package: str = ""
    backends: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    companions: tuple[str, ...] = ()
    beside: tuple[str, ...] = ("onnx", "numpy")
    devices: tuple[str, ...] = ("cpu",)
    template: str = "issue_general.md.j2"
    issues: str = ""
    labels: Callable[[Run, bool], tuple[str, ...]] = lambda run, may_be_reader: ()
    of_fuzzers: tuple[str, ...] = ()
    environment_tool: str = ""
    import_script: str = ""
    taken_along: tuple[str, ...] = ()
    runners: tuple[Runner, ...] = ()
    varied: tuple[str, ...] = ()
    words: Words = Words()
    weights: Mapping[str, float] = field(default_factory=lambda: {"message": 0.6, "op": 0.1, "site": 0.3})
    installing: Installing = Installing()

    @property
    def own_packages(self) -> tuple[str, ...]:
        """The packages that hold the compiler's own code."""
        return tuple(filter(None, (self.package, *self.variants)))

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages whose versions a report names, the project's own first."""
        return (*self.own_packages, *self.companions, *self.beside)

    @property
    def known_packages(self) -> tuple[str, ...]:
        """The packages whose versions any report of the project may name."""
        return (*self.packages, *(name for runner in self.runners for name in runner.needs))

    def runner(self, backend: str, format: str) -> Runner | None:
        """The part of a script for such programs; None where there is none."""
        return next((each for each in self.runners if each.takes(backend, format)), None)


GENERAL = Project("general")
"""The project of a backend that has no file here, and the form that names no project."""


@cache
def projects() -> dict[str, Project]:
    """Every project by its name, those of other distributions first."""
    found = (importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__))
    modules = (*installed("tensorcrux.projects"), *found)
    return {module.PROJECT.name: module.PROJECT for module in modules}


def project_of(backend: str) -> Project:
    """The project whose code a backend runs."""
    return next((each for each in projects().values() if backend in each.backends), GENERAL)


def project_of_package(package: str) -> Project:
    """The project that a package is of, a variant such as `onnxruntime-gpu` included."""
    every = projects().values()
    exact = (each for each in every if package in each.own_packages)
    alike = (each for each in every if package.startswith(f"{each.package}-"))
    return next(exact, None) or next(alike, GENERAL)


def project_of_module(module: str) -> Project:
    """The project that is imported by that name."""
    every = projects().values()
    return next((each for each in every if module in {one.module for one in each.runners}), GENERAL)


def find_form(name: str, backend: str) -> Project:
    """The project in whose form a report is written: the one asked for, else that of the backend.

    Raises `UserError` if there is no project of that name.
    """
    known = {**projects(), GENERAL.name: GENERAL}
    if name and name not in known:
        raise UserError(f"--for {name}: known are {', '.join(known)}")
    return known[name] if name else project_of(backend)


def runner_of(backend: str, format: str) -> Runner:
    """The part of `repro.py` for programs of a format on a backend; raises `UserError` if there is none."""
    found = project_of(backend).runner(backend, format)
    if found is None:
        known = ", ".join(sorted(name for each in projects().values() for name in each.backends))
        raise UserError(
            f"target {backend}: a repro.py can be written for {known} only; see docs/own-backend.md"
        )
    return found
