"""The pytest plugin: where `assert_agrees` puts its bundles, and a line in the summary for each.

It is loaded by every run of pytest in an environment with crux, so it imports nothing of crux.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import pytest

OUT = "CRUX_OUT"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--crux-out` to the options of pytest."""
    group = parser.getgroup("tensorcrux", "compilers compared by tensorcrux")
    group.addoption(
        "--crux-out",
        metavar="DIR",
        default=None,
        help="Where `assert_agrees` puts the smallest case and the report of what fails (crux-failures).",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Let `--crux-out` reach `assert_agrees` through the environment."""
    if (out := config.getoption("--crux-out")) is not None:
        os.environ[OUT] = os.path.abspath(out)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what a `Disagreement` says, without the frames of crux that raised it."""
    report = yield
    error = call.excinfo.value if call.excinfo else None
    folder = getattr(error, "folder", None)
    if type(error).__name__ == "Disagreement" and folder is not None:
        report.longrepr = f"{item.location[0]}:{(item.location[1] or 0) + 1}: {error}"
        item.user_properties.append(("tensorcrux", str(folder)))
    return report
