"""What many tests share: judges that take a second to start, and an empty database."""

import json
import math
import signal
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from corpus.processes import cache_folder
from corpus.target import Target
from oracles.judge import Judge
from oracles.sandbox.sandbox import Sandbox
from oracles.verdict import Limits
from tests.helpers.failing import division_crash
from triage.console import status
from triage.store.database import Store


@pytest.fixture(scope="session", autouse=True)
def _newest_is_installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache for the tests that holds what the user's own does, and says that nothing newer is offered."""
    cache, own = tmp_path_factory.mktemp("cache") / "tensorcrux", cache_folder()
    (cache / "newest").mkdir(parents=True)
    for path in own.iterdir() if own.is_dir() else ():
        if path.name not in ("newest", "empty"):
            (cache / path.name).symlink_to(path)
    for package in ("onnxruntime", "apache-tvm", "torch"):
        note_newest(cache, package)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache.parent))
        yield


def note_newest(cache: Path, package: str, release: str = "") -> None:
    """Let the answer of the package index be this release, or the one that is installed."""
    try:
        release = release or version(package)
    except PackageNotFoundError:
        return
    facts = {"asked": time.time(), "release": release, "early": "", "why": ""}
    (cache / "newest" / f"{package}.json").write_text(json.dumps(facts))


@pytest.fixture(scope="session", autouse=True)
def _no_command_says_that_it_waits() -> Iterator[None]:
    """On a busy machine any command may take the ten seconds after which it says what it is doing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(status, "PLAIN_SECONDS", math.inf)
        yield


signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""In the background of a shell, or under `nohup`, both are ignored, and so by all that tests start."""

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
"""No example fails for the time that it takes, which on a busy machine says nothing of it."""


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[..., None]:
    """Prints past pytest, as a measurement does."""

    def printed(*words: object, **how: Any) -> None:
        with capsys.disabled():
            print(*words, **how, flush=True)

    return printed


@pytest.fixture(scope="session")
def judge() -> Iterator[Judge]:
    """A judge of onnxruntime; a test that changes it gives it back as it was."""
    with Judge(Target("ort")) as opened:
        yield opened


@pytest.fixture(scope="session")
def crash_judge(judge: Judge) -> Judge:
    """The same, where the installed onnxruntime shows the bug of `division_crash`."""
    if not judge.verdict(division_crash()).is_bug:
        pytest.skip("the installed onnxruntime does not show the bug")
    return judge


def _judging(package: str, target: str, **options: Any) -> Callable[[], Iterator[Judge]]:
    """A judge for the whole run, which takes seconds to start; where its package is not there, a skip."""

    @pytest.fixture(scope="session")
    def opened() -> Iterator[Judge]:
        pytest.importorskip(package, reason=f"{package} is not installed")
        with Judge(Target(target), **options) as found:
            yield found

    return opened


torch_judge = _judging("torch", "torch")
inductor_judge = _judging("torch", "inductor")
tvm_judge = _judging("tvm", "tvm")
tir_judge = _judging("tvm", "tvm", format="tir")
relax_judge = _judging("tvm", "tvm", format="relax")
top_relax_judge = _judging("tvm", "tvm", format="relax", lower_levels=False)


def _opening(
    package: str, backend: str, scope: Any = "session", **options: Any
) -> Callable[[], Iterator[Sandbox]]:
    """The same without a judge; nothing starts it again if it dies."""

    @pytest.fixture(scope=scope)
    def opened() -> Iterator[Sandbox]:
        pytest.importorskip(package, reason=f"{package} is not installed")
        with Sandbox(backend, **options) as found:
            yield found

    return opened


ort_sandbox = _opening("onnxruntime", "ort")
torch_sandbox = _opening("torch", "torch")
tvm_opener = _opening("tvm", "tvm", "module", limits=Limits(cpu_seconds=60.0, wall_seconds=600.0))
"""Another process than a judge's: what a script registers stays in the one that opens it."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty database, `crux.db` in the test's folder."""
    with Store(tmp_path / "crux.db") as opened:
        yield opened
