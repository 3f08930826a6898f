"""`assert_agrees`: a test of the user's own that shrinks what fails and leaves a bundle."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Unpack

from .calls import Inputs, Model, Settings, check, reduce, report
from .child import UserError
from .results import Reduction, Verdict

OUT = "CRUX_OUT"
"""The environment variable that names the folder of bundles; the pytest option `--crux-out` sets it."""
USUAL_OUT = "crux-failures"
MINUTES = 2.0


class Disagreement(AssertionError):
    """A model on which a compiler fails; `verdict` is what was seen, `folder` where the bundle is."""

    def __init__(self, text: str, verdict: Verdict, folder: Path) -> None:
        super().__init__(text)
        self.verdict, self.folder = verdict, folder


def assert_agrees(
    model: Model,
    inputs: Inputs = None,
    *,
    target: str | None = None,
    out: Path | None = None,
    minutes: float = MINUTES,
    **settings: Unpack[Settings],
) -> None:
    """Pass if the target runs the model as its un-optimised reference does.

    Where it does not, the model is reduced for at most `minutes` and a bundle is written below `out` (the
    pytest option `--crux-out`, else `crux-failures`); the `Disagreement` says what fails and names the
    bundle. Of an invalid model, or one that the target does not support, nothing can be compared: that
    raises `UserError`.

    >>> import onnx
    >>> assert_agrees(onnx.parser.parse_model('''<ir_version: 8, opset_import: ["": 17]>
    ...     twice (float[3] x) => (float[3] y) { y = Add(x, x) }'''))
    """
    verdict = check(model, inputs, target=target, **settings)
    if verdict.outcome in ("invalid", "unsupported"):
        raise UserError(f"nothing was compared, the model is {verdict.outcome}: {verdict.title}")
    if not verdict.is_bug:
        return
    folder = (out or Path(os.environ.get(OUT) or USUAL_OUT)) / _test_name()
    small = reduce(model, inputs, target=target, out=folder / "case", minutes=minutes, **settings)
    text = _text(verdict, small, folder)
    try:
        written = report(folder / "case", folder / "bundle", target=target, **settings)
        text += f"\nreport: {written.folder}/issue.md"
    except UserError as error:
        text += f"\nno report: {error}"
    raise Disagreement(text, verdict, folder)


def _text(verdict: Verdict, small: Reduction, folder: Path) -> str:
    before, after = small.nodes
    lines = [
        f"{verdict.title}",
        f"smallest case: {after} of {before} nodes ({', '.join(small.case.measure.ops)}) in {folder}/case",
    ]
    if small.passes:
        lines.append(f"needs the pass {', '.join(small.passes)}")
    return "\n".join(lines)


def _test_name() -> str:
    """The name of the test that runs, as a folder's; `failure` outside of pytest."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "failure").rpartition(" (")[0] or "failure"
    return re.sub(r"[^\w.-]+", "-", test.rpartition("/")[2]).strip("-")
