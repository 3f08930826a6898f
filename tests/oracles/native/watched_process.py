"""A process that runs functions of the sample under breakpoints; says what it saw as JSON lines.

Arguments: the library, the option of the breakpoints, then for each test `function:argument`, or
`+function:argument` (in a forked child), `settle` or `leave_out`.
"""

import ctypes
import json
import os
import sys

from oracles.worker.breakpoints import Breakpoints


def main() -> None:
    library = ctypes.CDLL(sys.argv[1])
    breakpoints = Breakpoints(sys.argv[2])
    say({"armed": breakpoints.arm(), "complaint": breakpoints.complaint})
    for word in sys.argv[3:]:
        if word in ("settle", "leave_out"):
            getattr(breakpoints, word)()
            continue
        name, _, argument = word.lstrip("+").partition(":")
        pid = os.fork() if word.startswith("+") else 0
        if pid:
            say({"status": os.waitpid(pid, 0)[1]})
            continue
        breakpoints.begin()
        say({"result": getattr(library, name)(int(argument))})
        if word.startswith("+"):
            os._exit(0)


def say(document: dict[str, object]) -> None:
    """A line, flushed: the process may die next, and a reader of the shared list waits for it."""
    print(json.dumps(document), flush=True)
    sys.stdin.readline()


main()
