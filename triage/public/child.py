"""The process that does the library's work: it imports crux, so that the caller's process need not.

Requests and answers are lines of JSON; programs and inputs cross in case folders. Each process has at most
one child, which serves one call at a time, is started by the first and ends with its parent. A change of
the environment's variables starts another one.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess


START = """
import site, sys
sys.path.append(sys.argv[1])
site.main()
sys.path += sys.argv[2:]
from triage.library_server import main
main()
"""
"""After the standard library comes the folder that holds our packages, then the site's packages, then the
parent's other folders of installed packages: nothing of the working directory."""
PATIENCE = 10.0
"""Seconds in which a child may end what it has under way."""
PASSING = frozenset({"PYTEST_CURRENT_TEST"})


class UserError(Exception):
    """A mistake of the caller's, or a hostile file: one line that names what, why and what to do.

    A compiler's failure is a verdict and never becomes a `UserError`.
    """


class DoesNotFail(Exception):
    """The case that was to be reduced does not fail (any more)."""


class CruxFailed(RuntimeError):
    """A failure of crux itself; the text holds the traceback of its process."""


ERRORS = {"UserError": UserError, "DoesNotFail": DoesNotFail}


def ask(call: str, **words: Any) -> Any:
    """The child's answer to a call.

    Raises `UserError` or `DoesNotFail` as the child did, and `CruxFailed` if it failed.
    """
    with _lock:
        answer = _current().ask({"call": call, "cwd": os.getcwd(), **words})
    if "value" in answer:
        return answer["value"]
    raise ERRORS.get(answer["error"], CruxFailed)(answer["text"])


class _Child:
    def __init__(self) -> None:
        import subprocess

        self.variables = _variables()
        self._process: subprocess.Popen[str] = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", START, *_folders()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C reaches the parent, which then closes the child's input
        )

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request, default=_plain) + "\n")
            self._process.stdin.flush()
            answer: dict[str, Any] = json.loads(self._process.stdout.readline() or "null")
        except BrokenPipeError:
            answer = {}
        except BaseException:
            _close()  # interrupted: an answer left in the pipe would be taken for the next one
            raise
        if not answer:
            _close()
            raise CruxFailed(f"the process of crux ended with {self._process.returncode}")
        return answer

    def close(self) -> None:
        """Close its input, on which it ends in good order; kill it if it takes too long."""
        import subprocess

        self.forget()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def forget(self) -> None:
        """Close our ends of the pipes."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


_lock = threading.RLock()
_child: _Child | None = None


def _current() -> _Child:
    global _child
    if _child is not None and _child.variables != _variables():
        _close()
    if _child is None:
        import atexit

        atexit.unregister(_close)
        atexit.register(_close)
        _child = _Child()
    return _child


def _close() -> None:
    global _child
    child, _child = _child, None
    if child is not None:
        child.close()


def _disown() -> None:
    """In a fork of the parent: leave the child, and the lock that another thread may have held, to it."""
    global _child, _lock
    if _child is not None:
        _child.forget()
    _child, _lock = None, threading.RLock()


os.register_at_fork(after_in_child=_disown)


def _variables() -> dict[str, str]:
    return {name: text for name, text in os.environ.items() if name not in PASSING}


def _folders() -> list[str]:
    """The folder that holds our packages, then those of `sys.path` in which distributions are installed."""
    home = str(Path(__file__).resolve().parents[2])
    return [home, *(entry for entry in sys.path if entry and next(Path(entry).glob("*.dist-info"), None))]


def _plain(value: Any) -> Any:
    """A path as text, a number of numpy's as Python's."""
    return os.fspath(value) if isinstance(value, os.PathLike) else value.item()
