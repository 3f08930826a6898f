"""Compilers with planted faults, which stand in modules of this folder."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oracles.backends import backends, find_backend


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Makes the backend of a module of this folder known, and says what it is called."""
    monkeypatch.setenv("CRUX_SANDBOX_SHOWS", str(Path(__file__).parents[2]))  # where the module stands

    def known(name: str, *arguments: str) -> str:
        module = importlib.import_module(f"tests.bench.{name}")
        monkeypatch.setitem(backends(), module.NAME, module.backend(*arguments))
        find_backend.cache_clear()
        return str(module.NAME)

    yield known
    find_backend.cache_clear()
