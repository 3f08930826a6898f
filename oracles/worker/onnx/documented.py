"""The ONNX models that the tests of a file make, taken as each test leaves them."""

from __future__ import annotations

import base64
from contextlib import contextmanager
from typing import Any, Iterator  # noqa: UP035 (Python 3.8)

from oracles.worker.documented import run_tests

MOST_BYTES = 4 << 20
"""A larger model is no small example."""


def documented(path: str, content: str) -> dict[str, Any]:
    """`models`: [test, pass or "", program in base64] each; `notes`: what went wrong, in words."""
    found: list[list[str]] = []
    made: list[Any] = []

    def after_each(test: str) -> None:
        seen: set[int] = set()
        for model in made:
            if id(model) not in seen and model.ByteSize() <= MOST_BYTES:
                program = model.SerializeToString(deterministic=True)
                found.append([test, "", base64.b64encode(program).decode("ascii")])
            seen.add(id(model))
        made.clear()

    with _watched(made):
        note = run_tests(path, base64.b64decode(content).decode("utf-8", "replace"), after_each)
    return {"models": found, "notes": [note] if note else []}


@contextmanager
def _watched(made: list[Any]) -> Iterator[None]:
    """Every model that is made, read from text or saved is seen; none is written to a file."""
    import onnx
    from onnx import helper, parser

    def seeing(function: Any) -> Any:
        def see(*arguments: Any, **options: Any) -> Any:
            model = function(*arguments, **options)
            made.append(model)
            return model

        return see

    def save(proto: Any, *arguments: Any, **options: Any) -> None:
        if isinstance(proto, onnx.ModelProto):
            made.append(proto)

    places: list[tuple[Any, str, Any]] = [(helper, "make_model", seeing), (parser, "parse_model", seeing)]
    places += [(onnx, "save", lambda old: save), (onnx, "save_model", lambda old: save)]
    before = [(holder, name, getattr(holder, name)) for holder, name, _ in places]
    for holder, name, wrap in places:
        setattr(holder, name, wrap(getattr(holder, name)))
    try:
        yield
    finally:
        for holder, name, old in before:
            setattr(holder, name, old)
