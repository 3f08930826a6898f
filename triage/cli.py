"""The command line `crux`: finds its commands in `triage.commands`, and answers for the exit codes.

Nothing here or at the top of a command's file may import a framework, onnx, numpy or the store:
`crux --help` has 300 ms of CPU time.
"""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import os
import pkgutil
import select
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn, TextIO

import typer

import triage.commands
from corpus.errors import UserError
from triage.console.foot import FOOT
from triage.console.help import START, UPKEEP, WORKFLOWS, prepare
from triage.console.options import Command
from triage.console.output import disk_complaint, is_live, leave_off, say, write_line
from triage.console.settings import defaults, here

HELP = "Finds, reduces, groups and reports failures of deep-learning compilers."
OK, SHOWS, USAGE, OWN_FAILURE, INTERRUPTED = 0, 1, 2, 3, 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HELP_ALL = "--help-all"
HELP_OPTIONS = ("-h", "--help", HELP_ALL)
COMPLETING = "_CRUX_COMPLETE"
"""Set by a shell that asks what a word may become."""
RARELY = 50_000
"""Objects between two collections of garbage: at Python's 700 they take a tenth of the time of imports."""
NO_READER = 128 + signal.SIGPIPE
"""What a shell says of a program that `| head` cut off."""


def build(words: Sequence[str] | None = None) -> typer.Typer:
    """The application with the commands that an invocation with these words needs; without words, with all.

    A command's file is found by its name in `triage/commands`. Where only the names and first lines of
    all are shown, no command has parameters: reading these takes as long as all the rest of the help.
    """
    app = typer.Typer(
        name="crux",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": [*HELP_OPTIONS]},
    )
    app.callback(help=HELP)(_common)
    names = [module.name for module in pkgutil.iter_modules(triage.commands.__path__)]
    for name in words[:1] if words and words[0] in names else names:
        module = importlib.import_module(f"triage.commands.{name}")
        own = (each for each in vars(module).values() if isinstance(each, Command))
        if one := next((each for each in own if each.function.__module__ == module.__name__), None):
            app.command(name)(one)
        else:
            module.add_to(app)
    _group(app)
    if words in [[each] for each in HELP_OPTIONS]:
        _keep_only_lines(app)
    return app


def _keep_only_lines(app: typer.Typer) -> None:
    """Take the parameters from the commands, and the commands from the groups."""
    for command in app.registered_commands:
        command.help = command.callback.__doc__
        command.callback = _nothing
    for group in app.registered_groups:
        assert group.typer_instance is not None
        group.typer_instance.registered_commands.clear()


def _nothing() -> None:
    """A callback without parameters."""


def _group(app: typer.Typer) -> None:
    """Order the commands as they are used, grouped by the work that they are for."""
    order = [name for names in WORKFLOWS.values() for name in names]
    panels = {name: panel for panel, names in WORKFLOWS.items() for name in names}
    for found in (app.registered_commands, app.registered_groups):
        for info in found:
            info.rich_help_panel = panels.get(str(info.name), UPKEEP)
        found.sort(key=lambda info: order.index(str(info.name)) if info.name in order else len(order))


def main() -> NoReturn:
    """The console script."""
    gc.set_threshold(RARELY)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # starting threads takes a fifth of numpy's import
    code: int | None = None

    def leave() -> None:
        """End before Python takes itself apart: a signal would end it then."""
        if code is not None:
            with suppress(OSError, ValueError, AttributeError):
                sys.stderr.flush()
            os._exit(code)

    atexit.register(leave)
    ended = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except (OSError, ValueError):  # nobody reads it any more, the disk is full, or it was closed
        leave_off(sys.stdout)
    except AttributeError:  # there was none to begin with
        pass
    except KeyboardInterrupt:
        ended = INTERRUPTED
    for number in SIGNALS:  # all is done and said
        signal.signal(number, signal.SIG_IGN)
    code = ended
    sys.exit(code)


TALKING = ("mcp", "wrap")
"""Commands that leave the terminal to others."""


def run(arguments: Sequence[str]) -> int:
    """One invocation's exit code: 0 and 1 are the command's own answer, the others are decided here."""
    if not sys.platform.startswith("linux"):
        say("crux: runs on Linux only (its sandbox needs Linux's processes)")
        return USAGE
    interrupts = Interrupts()
    try:
        interrupts.hear()
        context = _context(arguments)
        is_watched = is_live(sys.stderr) and arguments[0] not in TALKING
        with context, FOOT.shown(arguments[0]) if is_watched else nullcontext():
            return int(context.command.invoke(context) or OK)
    except typer.Exit as stop:
        return stop.exit_code
    except typer.TyperException as error:
        return _misused(error)
    except UserError as error:
        say(f"crux: {' '.join(str(error).split())}")
        return USAGE
    except KeyboardInterrupt as stop:
        say(f"crux: interrupted; {str(stop) or 'everything found so far is kept'}")
        return INTERRUPTED
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # what rich makes of it, as a failure with 1
            return NO_READER
        raise
    except Exception as error:
        if interrupts.came and (_hides_an_interrupt(error) or _is_for_nobody(error)):
            say("crux: interrupted; everything found so far is kept")
            return INTERRUPTED
        return _code_of(error, arguments)


def _hides_an_interrupt(error: Exception) -> bool:
    """Whether an interrupt may have become this: while a library was imported, or in the midst of a query."""
    import sqlite3

    is_query = isinstance(error, sqlite3.OperationalError) and "interrupted" in str(error)
    is_made_of_one = isinstance(error.__cause__ or error.__context__, KeyboardInterrupt)
    return is_query or is_made_of_one or isinstance(error, (ImportError, RecursionError))


def _code_of(error: Exception, arguments: Sequence[str]) -> int:
    """The exit code of an error that no command expected, told in one line."""
    if _is_for_nobody(error):  # a terminal that is closed sends its signal, too, perhaps a moment later
        return NO_READER if isinstance(error, BrokenPipeError) else INTERRUPTED
    if complaint := disk_complaint(error):
        say(f"crux: {complaint}")
        return USAGE
    from triage.console.crash import write_crash

    log, bundle = write_crash(arguments)
    more = f"; to report it, look through {bundle} and attach it to an issue of tensorcrux" if bundle else ""
    say(f"crux: a failure of its own, {_one_line(error)}; the traceback is in {log}{more}")
    return OWN_FAILURE


def _context(arguments: Sequence[str]) -> Any:
    """The command with its arguments read; raises `typer.Exit` where all is said by then."""
    if not arguments and COMPLETING not in os.environ:
        write_line(START.rstrip())
        raise typer.Exit(USAGE)
    command: Any = typer.main.get_command(build(None if COMPLETING in os.environ else arguments))
    prepare(command, everything=HELP_ALL in arguments)
    read_plainly(command)
    if COMPLETING in os.environ:
        raise typer.Exit(command.main(list(arguments), prog_name="crux", standalone_mode=False) or OK)
    known = None if not {*arguments}.isdisjoint(HELP_OPTIONS) else defaults(command, here())
    return command.make_context("crux", list(arguments), default_map=known)


def _misused(error: typer.TyperException) -> int:
    """Say what is wrong with the words of a command."""
    context = getattr(error, "ctx", None)
    where = context.command_path if context else "crux"
    say(f"{where}: {' '.join(error.format_message().split())} (see `{where} --help`)")
    return USAGE


def read_plainly(command: Any) -> None:
    """Let a command and those below it take defaults, words and paths as they are.

    Typer builds a validator of pydantic's for each parameter of an invocation, which takes a tenth of the CPU
    time of a check; what has to be parsed still goes there.
    """
    listed = command.get_params

    def get_params(context: Any) -> Any:
        every = listed(context)
        for each in every:
            if not isinstance(each.get_runtime_param, _Plainly):
                each.get_runtime_param = _Plainly(each.get_runtime_param)
        return every

    command.get_params = get_params
    for child in getattr(command, "commands", {}).values():
        read_plainly(child)


@dataclass(frozen=True)
class _Plainly:
    """Reads a parameter's value; `validator` is typer's own way to do so."""

    validator: Callable[[], Any]

    def __call__(self) -> _Plainly:
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        kind = param.type_descriptor.annotation
        is_many = param.multiple or param.nargs == -1
        if value is None:
            return () if is_many else None
        if is_many and kind == list[str] and not isinstance(value, str):
            return [str(each) for each in value]
        if not is_many and kind in (str, Path) and isinstance(value, str):
            return kind(value)
        is_default = isinstance(kind, type) and isinstance(value, kind) and value == param.default
        return value if is_default else self.validator().coerce(value, param=param, ctx=ctx)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"crux {version('tensorcrux')}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", help="Print the version and leave.", is_eager=True, callback=_print_version),
]


def _common(version: Version = False) -> None:
    """Options before the command."""


class Interrupts:
    """The signals that end whatever is under way in good order, as Ctrl-C does; `came` once there was one."""

    def __init__(self) -> None:
        self.came = False

    def hear(self) -> None:
        """Listen from now on; a signal that is ignored stays so: `nohup` means to be left alone."""
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._interrupt)
        sys.unraisablehook = self._cannot_raise

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        if _loads_native_code(frame):  # C++ ends the process where that is interrupted
            _comes_again(number)
        else:
            raise KeyboardInterrupt

    def _cannot_raise(self, what: sys.UnraisableHookArgs) -> None:
        """An interrupt within a callback of Python's own (a lock of imports) would be lost."""
        if issubclass(what.exc_type, KeyboardInterrupt):
            _comes_again(signal.SIGINT)
        else:
            sys.__unraisablehook__(what)


def _comes_again(number: int) -> None:
    """Let a signal come once more when what cannot be interrupted is over."""
    threading.Timer(0.05, os.kill, (os.getpid(), number)).start()


def _loads_native_code(frame: FrameType | None) -> bool:
    """Whether Python is within a native module's own beginning."""
    loads = ("create_dynamic", "exec_dynamic")
    while frame is not None:
        calls = frame.f_locals.get("f") if frame.f_code.co_name == "_call_with_frames_removed" else None
        if getattr(calls, "__name__", "") in loads:
            return True
        frame = frame.f_back
    return False


def _is_for_nobody(error: Exception) -> bool:
    """Whether a write failed because the pipe's reader left, or the terminal was closed."""
    if isinstance(error, BrokenPipeError):
        return _has_no_reader(sys.stdout)
    is_terminals = isinstance(error, OSError) and error.errno == errno.EIO and not error.filename
    return is_terminals and any(_has_no_reader(stream) for stream in (sys.stdout, sys.stderr))


def _has_no_reader(stream: TextIO) -> bool:
    """Whether the stream's other end was closed; a worker's broken pipe is our own failure."""
    if stream.closed:
        return True
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _one_line(error: BaseException) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 200 else text[:197] + "..."


if __name__ == "__main__":
    main()
