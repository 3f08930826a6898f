"""Reduces a case in a process of its own that kills itself: `killed.py CASE OUT OPTIONS WHEN N`.

OPTIONS are the JSON of the reduction's options. WHEN is `never`, `call` (as the predicate is called for the
N-th time, by whichever worker), `check` (right after the N-th check) or `file` (right before the N-th file is
put in its place). A command finds the process id in `REDUCING`.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from corpus.case import Case
from reducer.api import reduce_case
from reducer.course import Options, Progress
from reducer.engine.decider import Decider


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(case: str, out: str, options: str, when: str, number: str) -> None:
    os.environ["REDUCING"] = str(os.getpid())
    count = 0

    def reached() -> None:
        nonlocal count
        count += 1
        if count == int(number):
            die()

    def before(action: Callable[..., Any]) -> Callable[..., Any]:
        def act(*arguments: Any, **more: Any) -> Any:
            reached()
            return action(*arguments, **more)

        return act

    def on_progress(progress: Progress) -> None:
        if when == "check":
            reached()

    if when == "call":
        prepare = Decider.__post_init__

        def with_reached(decider: Decider) -> None:
            decider.predicate = before(decider.predicate)
            prepare(decider)

        Decider.__post_init__ = with_reached  # type: ignore[method-assign]
    if when == "file":
        os.replace, os.rename = before(os.replace), before(os.rename)
    reduction = reduce_case(Case.load(Path(case)), Path(out), Options(**json.loads(options)), on_progress)
    print(json.dumps(reduction.to_json()))


if __name__ == "__main__":
    main(*sys.argv[1:])
