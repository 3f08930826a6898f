"""A language that crux does not know, by its folders alone: operators one after the other on two floats.

Each folder here stands for the one of that name in a package; `installed` puts them beside those.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import corpus.formats
import generators.languages
import generators.strategies
import oracles.languages
import reducer.languages
import reducer.moves
import triage.languages
from oracles.backends import backends
from tests.triage.toy_language import backend, project
from triage.projects import projects

FOLDERS = {
    "formats": corpus.formats,
    "oracles": oracles.languages,
    "reducer": reducer.languages,
    "moves": reducer.moves,
    "generators": generators.languages,
    "strategies": generators.strategies,
    "triage": triage.languages,
}


@contextmanager
def installed() -> Iterator[None]:
    """The language and its compiler, known as the others are."""
    here = Path(__file__).parent
    places = {package: str(here / name) for name, package in FOLDERS.items()}
    for package, place in places.items():
        package.__path__.append(place)
    _forget()
    backends()[backend.NAME] = backend.backend()
    projects()[project.PROJECT.name] = project.PROJECT
    try:
        yield
    finally:
        del backends()[backend.NAME], projects()[project.PROJECT.name]
        for package, place in places.items():
            package.__path__.remove(place)
            sys.modules.pop(f"{package.__name__}.toy", None)
        _forget()


def _forget() -> None:
    """Have the folders looked through again."""
    for remembered in (
        corpus.formats.format_names,
        corpus.formats.find_format,
        generators.strategies.strategies,
        reducer.moves._found,
    ):
        remembered.cache_clear()
