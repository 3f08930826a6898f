"""The toy compiler as a project: how its scripts run a program."""

from collections.abc import Mapping
from typing import Any

from triage.projects import ClaimedRun, Printed, Project, Runner

PART = '''\
CONFIGS = {{ configs | repr }}
OPERATORS = {"neg": np.negative, "abs": np.abs, "double": lambda x: x + x, "half": lambda x: x / 2}


def package_version():
    return np.__version__


def run(config, path):
    """In a process of its own: apply the operators once, save the output."""
    value, before = np.float32(build_inputs()[0]), ""
    for op in OPS:
        if not (CONFIGS[config] and (before, op) == ("neg", "abs")):
            value = OPERATORS[op](value)
        before = op
    save_outputs(path, [("out", value.dtype.name, value)])
    return 0
'''


def _settings(shown: ClaimedRun) -> Mapping[str, Any]:
    return {"configs": {label: config.get("fast") for label, config in shown.own.items()}}


PROJECT = Project(
    "toy",
    package="numpy",
    backends=("toy",),
    issues="https://example.org/toy",
    runners=(
        Runner(
            ("numpy",), "numpy", PART, _settings, printed=Printed(frozenset(), frozenset()), formats=("toy",)
        ),
    ),
)
