"""Notes of a script: what it compiles, what it feeds, what it compares and what is raised.

Calls of frameworks are wrapped as their modules are imported, and go on unchanged. Each process writes lines
of JSON to a file of its own, and each program to a numbered folder beside it, before the framework is called:
a crash loses nothing.
"""

import atexit
import faulthandler
import functools
import importlib.machinery
import json
import os
import sys
import time
import traceback
from typing import Any, Callable  # noqa: UP035 (Python 3.8)

from oracles.worker.scripts.frameworks import HOOKS

NOTES = "notes.jsonl"
MOST_TEXT, MOST_PROGRAMS = 4000, 64


class Recorder:
    """The notes of one process."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.join(folder, f"{time.monotonic_ns()}-{os.getpid()}")
        os.makedirs(self.folder)
        self.script = os.path.abspath(sys.argv[0]) if sys.argv and sys.argv[0] else "<string>"
        self.programs = 0
        self.depth = 0

    def note(self, **facts: Any) -> None:
        """Write a line, which a crash leaves on the disk."""
        with open(os.path.join(self.folder, NOTES), "a", encoding="utf-8") as file:
            file.write(json.dumps({"at": time.monotonic(), **facts}) + "\n")

    def place(self) -> str:
        """A new folder for a program; empty once there are many."""
        self.programs += 1
        if self.programs > MOST_PROGRAMS:
            return ""
        path = os.path.join(self.folder, str(self.programs))
        os.makedirs(path)
        return path

    def from_script(self) -> bool:
        """Whether the script itself makes the call that is being noted, and no library."""
        code = sys._getframe(2).f_code
        return "site-packages" not in code.co_filename and not code.co_filename.startswith("<frozen")

    def wrap(self, holder: Any, name: str, keep: Callable[..., Any], label: str = "") -> None:
        """Wrap a compiler's function: `keep(recorder, *args, **kwargs)` saves its program first.

        Only the outermost call is noted.
        """
        real = getattr(holder, name, None)
        if real is None:
            return

        @functools.wraps(real)
        def called(*args: Any, **kwargs: Any) -> Any:
            if self.depth:
                return real(*args, **kwargs)
            self.depth += 1
            try:
                self.begin_call(label or name, keep, args, kwargs)
                result = real(*args, **kwargs)
            except BaseException as error:
                self.note(event="failed", call=label or name, type=type(error).__name__, text=said(error))
                raise
            finally:
                self.depth -= 1
            self.note(event="ended", call=label or name)
            return result

        setattr(holder, name, called)

    def begin_call(self, label: str, keep: Callable[..., Any], args: Any, kwargs: Any) -> None:
        """Note a call with its program, or why that cannot be kept, which is nobody's failure."""
        try:
            facts = keep(self, *args, **kwargs) or {}
        except Exception as error:
            facts = {"unkept": f"{type(error).__name__}: {said(error)[:300]}"}
        self.note(event="called", call=label, **facts)

    def wrap_comparison(self, holder: Any, name: str, label: str) -> None:
        """Wrap a comparison: False or an exception is a difference."""
        real = getattr(holder, name, None)
        if real is None:
            return

        @functools.wraps(real)
        def called(*args: Any, **kwargs: Any) -> Any:
            if not self.from_script():
                return real(*args, **kwargs)
            try:
                result = real(*args, **kwargs)
            except BaseException as error:
                self.note(event="compared", call=label, same=False, text=said(error))
                raise
            is_same = bool(result) if isinstance(result, bool) or hasattr(result, "dtype") else result is None
            self.note(event="compared", call=label, same=is_same, text="")
            return result

        setattr(holder, name, called)

    def raised(self, kind: Any, error: Any, trace: Any) -> None:
        """Note an exception that ends the script or one of its tests."""
        frames = [
            [frame.filename, frame.name, frame.line or ""] for frame in traceback.extract_tb(trace) or ()
        ]
        self.note(event="raised", type=kind.__name__, text=said(error), frames=frames[-40:])


def said(error: Any) -> str:
    """An exception's words, within limits."""
    return str(error)[:MOST_TEXT]


class Importer:
    """Runs a module's hook right after the module."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find the module by the other finders, and have its hook follow it."""
        if name not in HOOKS:
            return None
        finders = (each for each in sys.meta_path if each is not self and hasattr(each, "find_spec"))
        spec = next(filter(None, (each.find_spec(name, path, target) for each in finders)), None)
        if isinstance(spec, importlib.machinery.ModuleSpec) and spec.loader is not None:
            loader: Any = spec.loader
            real = loader.exec_module

            def exec_module(module: Any) -> None:
                real(module)
                HOOKS[name](self.recorder, module)

            loader.exec_module = exec_module
        return spec


def begin(folder: str) -> None:
    """Begin to take notes in this process."""
    recorder = Recorder(folder)
    recorder.note(event="start", script=recorder.script)
    with open(os.path.join(recorder.folder, "crash.txt"), "w") as crash:
        faulthandler.enable(os.dup(crash.fileno()))
    real = sys.excepthook

    def excepthook(kind: Any, error: Any, trace: Any) -> None:
        recorder.raised(kind, error, trace)
        real(kind, error, trace)

    sys.excepthook = excepthook
    atexit.register(recorder.note, event="exit")
    sys.meta_path.insert(0, Importer(recorder))
