"""The library of tensorcrux: check, reduce and report failing models of deep-learning compilers.

    import tensorcrux

    verdict = tensorcrux.check("model.onnx", target="ort")
    if verdict.is_bug:
        tensorcrux.reduce("model.onnx", target="ort", out=Path("small"))
        tensorcrux.report("small", Path("bundle"))

`tensorcrux.testing.assert_agrees` does all three within a test. What `__all__` names here is public and
follows semantic versions; the packages that do the work are not. They run in a process of their own (see
`tensorcrux.child`), so that a program may have a `corpus.py` or a `triage/` of its own.
`python -m tensorcrux` is the command line `crux`.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from triage.public import testing
    from triage.public.calls import check, generate, reduce, report
    from triage.public.case import Case
    from triage.public.child import DoesNotFail, UserError
    from triage.public.results import Reduction, Report, Verdict

OURS = ("corpus", "oracles", "reducer", "generators", "triage")
HOME = os.path.dirname(os.path.realpath(__file__))
__path__ = [os.path.join(HOME, "triage", "public")]
"""The parts of this module are the files of that room, whatever else is called `triage`."""

__all__ = [
    "Case",
    "DoesNotFail",
    "Reduction",
    "Report",
    "UserError",
    "Verdict",
    "check",
    "generate",
    "reduce",
    "report",
    "testing",
]
__version__: str
_MODULES = {
    "calls": ("check", "generate", "reduce", "report"),
    "case": ("Case",),
    "child": ("DoesNotFail", "UserError"),
    "results": ("Reduction", "Report", "Verdict"),
}


def __getattr__(name: str) -> "Any":
    """Import what is asked for: every run of pytest in an environment with crux imports this module."""
    from importlib import import_module

    if name == "__version__":
        return import_module("importlib.metadata").version("tensorcrux")
    if name == "testing":
        return import_module("tensorcrux.testing")
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"tensorcrux.{module}"), name)
    raise AttributeError(f"module 'tensorcrux' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__, "__version__"]


def prefer_own_packages() -> None:
    """Move each folder of `sys.path` that holds another package of our names behind all others.

    Such a folder is a user's working directory (`python -m`, PYTHONPATH). Processes started by
    multiprocessing take over the order; all others are started with `-I`.
    """
    hiding = [entry for entry in sys.path if _holds_our_names(entry) and os.path.realpath(entry) != HOME]
    sys.path[:] = [entry for entry in sys.path if entry not in hiding] + hiding


def _holds_our_names(folder: str) -> bool:
    paths = [os.path.join(folder, name) for name in OURS]
    return any(os.path.isdir(path) or os.path.isfile(f"{path}.py") for path in paths)


def main() -> "NoReturn":
    """The console script."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # instead of a traceback, until `triage.start` says more
    prefer_own_packages()
    from triage.start import main as run

    run()


if __name__ == "__main__":
    if not sys.flags.safe_path and os.path.realpath(sys.path[0]) != HOME:
        del sys.path[0]  # the working directory, which may hold a `json.py` of anybody's
    main()
