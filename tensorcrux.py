"""The library of tensorcrux: check, reduce and report failing models of deep-learning compilers.

    import tensorcrux

    verdict = tensorcrux.check("model.onnx", target="ort")
    if verdict.is_bug:
        tensorcrux.reduce("model.onnx", target="ort", out=Path("small"))
        tensorcrux.report("small", Path("bundle"))

`tensorcrux.testing.assert_agrees` does all three within a test. What `__all__` names here is public and
follows semantic versions; the packages that it is made of are not. `python -m tensorcrux` is the command line
`crux`.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("corpus", "oracles", "reducer", "generators", "triage")


def _refuse_foreign_packages() -> None:
    """Raises ImportError where a package of another distribution hides one of ours: nothing would work."""
    for name in PACKAGES:
        spec, own = find_spec(name), Path(__file__).resolve().parent / name
        found = Path(spec.origin).resolve().parent if spec and spec.origin else None
        if found != own:
            raise ImportError(
                f"tensorcrux: the package `{name}` is found at {found} and not at {own}; "
                "install tensorcrux in an environment of its own"
            )


_refuse_foreign_packages()
if __name__ == "__main__":
    from triage.cli import main

    main()

from importlib.metadata import version  # noqa: E402

from corpus.case import Case  # noqa: E402
from corpus.errors import UserError  # noqa: E402
from oracles.verdict import Outcome, Symptom, Verdict  # noqa: E402
from reducer.api import DoesNotFail  # noqa: E402
from triage.public import testing  # noqa: E402
from triage.public.calls import Reduction, check, generate, reduce, report  # noqa: E402
from triage.reports.report import Report  # noqa: E402

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
__version__ = version("tensorcrux")
sys.modules["tensorcrux.testing"] = testing  # `from tensorcrux.testing import …`, as os does for os.path
