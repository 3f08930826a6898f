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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tensorcrux import testing
    from tensorcrux.calls import check, generate, reduce, report
    from tensorcrux.case import Case
    from tensorcrux.errors import DoesNotFail, UserError
    from tensorcrux.results import Outcome, Reduction, Report, Symptom, Verdict

__all__ = [
    "Case",
    "DoesNotFail",
    "Outcome",
    "Reduction",
    "Report",
    "Symptom",
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
    "errors": ("DoesNotFail", "UserError"),
    "results": ("Outcome", "Reduction", "Report", "Symptom", "Verdict"),
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
