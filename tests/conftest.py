"""What many tests share: judges that take a second to start, and an empty database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from corpus.target import Target
from oracles.judge import Judge
from oracles.sandbox.sandbox import Sandbox
from tests.helpers.failing import division_crash
from triage.store.database import Store


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


@pytest.fixture(scope="session")
def relax_judge() -> Iterator[Judge]:
    """A judge of Relax modules on TVM, at every level."""
    pytest.importorskip("tvm_ffi", reason="tvm is not installed")
    with Judge(Target("tvm"), format="relax") as opened:
        yield opened


@pytest.fixture(scope="session")
def ort_sandbox() -> Iterator[Sandbox]:
    with Sandbox("ort") as opened:
        yield opened


@pytest.fixture(scope="session")
def torch_sandbox() -> Iterator[Sandbox]:
    pytest.importorskip("torch", reason="torch is not installed")
    with Sandbox("torch") as opened:
        yield opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty database, `crux.db` in the test's folder."""
    with Store(tmp_path / "crux.db") as opened:
        yield opened
