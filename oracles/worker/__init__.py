"""What several backends share in the worker: Python 3.8 syntax, numpy and the framework only."""

from __future__ import annotations

import time
from typing import Any, Callable, Iterator  # noqa: UP035 (Python 3.8)

ROUNDS, SECONDS = 50, 0.1
"""A timed program runs so often before its last run, or until it has taken so many CPU seconds; but once."""


def rounds(settings: dict[str, Any], enter: Callable[[str], None]) -> Iterator[None]:
    """Yield for each run before the last, with the setting `warm`; each is an execution of its own."""
    start = time.thread_time()
    for _ in range(ROUNDS if settings.get("warm") else 0):
        yield
        enter("executed")
        if time.thread_time() > start + SECONDS:
            return


def called(
    call: Callable[[Any], Any],
    inputs: dict[str, Any],
    settings: dict[str, Any],
    enter: Callable[[str], None],
    prepare: Callable[[dict[str, Any]], Any] = dict,
) -> Any:
    """What the run that counts gives, among the runs of the same compiled program that the settings ask for.

    `earlier` ones have inputs of other shapes and come before it; if it `counts_first` they come after it.
    One that raises may do so: what it raised stands in the setting `refused` afterwards, by its number.
    """
    # this package stays without numpy: what records a script's calls wraps numpy while it is imported
    from oracles.worker.arrays import resized

    given = prepare(inputs)
    found = call(given) if settings.get("counts_first") else None
    for number, shapes in enumerate(settings.get("earlier") or ()):
        try:
            call(prepare({name: resized(value, shapes.get(name)) for name, value in inputs.items()}))
        except Exception as error:
            settings.setdefault("refused", []).append((number, error))
        enter("execute")
    if settings.get("counts_first"):
        return found
    for _ in rounds(settings, enter):
        call(given)
    return call(given)
