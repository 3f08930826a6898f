"""TVM with a wrong rewrite in its pipeline."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oracles.backends import backends, find_backend
from tests.bench import planted


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Makes the backend with such a rewrite known, and says what it is called."""
    monkeypatch.setenv("CRUX_SANDBOX_SHOWS", str(Path(__file__).parents[2]))  # where the module stands

    def known(rewrite: str) -> str:
        monkeypatch.setitem(backends(), planted.NAME, planted.backend(rewrite))
        find_backend.cache_clear()
        return planted.NAME

    yield known
    find_backend.cache_clear()
