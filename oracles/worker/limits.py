"""The form that a compiler says it does not do; tests of a file run one by one.

What a test says of its programs does not matter, nor whether it passes: each is run to its end or to whatever
it raises.
"""

import base64
import contextlib
import inspect
import io
import itertools
import linecache
import os
import re
import sys
import types
import unittest
from typing import Any, Callable, Iterator, Sequence  # noqa: UP035 (Python 3.8)

_NOT_CONSTANT = re.compile(
    r"\bdynamic (\w+)|\bonly constant (\w+)|\bnon-?constant (\w+)"
    r"|\b(\w+) must be (?:a )?(?:constant|static)\b",
    re.I,
)
_OF_A_STATE = re.compile(r"\b(symbolic|unknown) (\w+)", re.I)
_TAKEN = re.compile(r"cannot handle (\w+(?: inputs?)?)")
_NOT_THERE = re.compile(
    r"^(.+?)(?: is| are)?(?: currently)? (?:not (?:currently |yet )?|un)(?:supported|implemented)"
)
_ONLY = re.compile(r"\bonly supports? (.+?)\.?$", re.I | re.M)


def form_of(message: str) -> str:
    """The form that a refusal names: `dynamic pads`, `other than 3D`; empty if it names none.

    What must be constant is dynamic where it is refused.
    """
    found = _NOT_CONSTANT.search(message)
    if found:
        return f"dynamic {next(word for word in found.groups() if word).lower()}"
    found = _OF_A_STATE.search(message)
    if found:
        return f"{found.group(1).lower()} {found.group(2).lower()}"
    found = _TAKEN.search(message)
    if found:
        return found.group(1)
    found = _ONLY.search(message)
    if found:
        return f"other than {found.group(1)}"
    found = _NOT_THERE.search(message)
    return found.group(1) if found else ""


MODULE = "crux_documented"
"""What the file's module is called; TVM's parser looks its source up by that."""

Test = "tuple[str, Callable[[], Any]]"


def run_tests(path: str, text: str, after_each: Callable[[str], None]) -> str:
    """Run the file itself, then each of its tests; `after_each` hears the name, empty for the file.

    What the file raised when it was run, in words; then none of its tests is run.
    """
    sys.path.insert(0, os.path.dirname(path))
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            module = executed(path, text)
        except BaseException as error:
            return f"{type(error).__name__}: {error}"
        finally:
            after_each("")
        for name, test in tests_of(vars(module)):
            with contextlib.suppress(BaseException):
                test()
            after_each(name)
    return ""


def executed(path: str, text: str) -> types.ModuleType:
    """The file as a module whose source can be looked up."""
    module = types.ModuleType(MODULE)
    module.__file__ = path
    sys.modules[MODULE] = module
    linecache.cache[path] = (len(text), None, text.splitlines(True), path)
    exec(compile(text, path, "exec"), vars(module))
    return module


def tests_of(names: dict[str, Any]) -> Iterator[Any]:
    """Each test as pytest finds them, with a name and called without arguments; fixtures are not made."""
    for name, found in list(names.items()):
        if getattr(found, "__module__", "") != MODULE:
            continue
        if inspect.isclass(found) and issubclass(found, unittest.TestCase):
            cases: Any = unittest.defaultTestLoader.loadTestsFromTestCase(found)
            for case in cases:
                yield f"{name}::{case.id().rpartition('.')[2]}", case.debug
        elif inspect.isclass(found) and name.startswith("Test"):
            methods = [each for each in dir(found) if each.startswith("test")]
            yield from ((f"{name}::{each}", _method(found, each)) for each in methods)
        elif inspect.isfunction(found) and name.startswith("test"):
            yield from _calls(name, found)


def _method(kind: Any, name: str) -> Callable[[], Any]:
    return lambda: getattr(kind(), name)()


def _calls(name: str, function: Any) -> Iterator[Any]:
    """One call for each set of the arguments that marks of pytest give it."""
    marks = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
    choices = [_choices(*mark.args[:2]) for mark in marks]
    for number, chosen in enumerate(itertools.product(*choices)):
        given = {key: value for part in chosen for key, value in part.items()}
        yield f"{name}[{number}]" if choices else name, lambda given=given: function(**given)


def _choices(names: Any, values: Sequence[Any]) -> list[dict[str, Any]]:
    keys = [key.strip() for key in names.split(",")] if isinstance(names, str) else list(names)
    rows = [getattr(value, "values", value) if hasattr(value, "marks") else value for value in values]
    several = len(keys) > 1 or any(hasattr(value, "marks") for value in values)
    return [dict(zip(keys, row if several else [row])) for row in rows]  # noqa: B905 (Python 3.8)


def opened(capture: Callable[[str, bytes], dict[str, Any]], name: str, content: str) -> dict[str, Any]:
    """What a framework captures of a file (in base64), or an `error` in words."""
    try:
        return capture(name, base64.b64decode(content))
    except BaseException as error:
        return {"error": f"{type(error).__name__}: {error}"}
