"""Where `crux` begins: what an interruption and missing streams mean, before anything else is imported."""

import os
import signal
import sys
from typing import NoReturn

INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> NoReturn:
    """The console script."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _leave)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # `bin/crux` keeps them back until here
    open_missing()
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        # names and reports are in UTF-8, whatever the terminal speaks
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, "PYTHONUTF8": "1"})
    from triage.cli import main

    main()


def open_missing() -> None:
    """Give the standard streams that are closed to nobody: what is opened next must not take their place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _leave(number: int, frame: object) -> NoReturn:
    os.write(2, b"crux: interrupted before anything was begun\n")
    os._exit(INTERRUPTED)
