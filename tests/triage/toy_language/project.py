"""The toy compiler as a project: how its scripts run a program."""

from collections.abc import Mapping
from typing import Any

from triage.projects import ClaimedRun, Printed, Project, Runner

PART = '''\
CONFIGS = {{ configs | repr }}
UNARY = {"neg": np.negative, "abs": np.abs, "square": np.square, "double": lambda x: x + x}
UNARY["half"] = lambda x: x / 2
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def package_version():
    return np.__version__


def run(config, path):
    """In a process of its own: evaluate the lines once, save the output."""
    values = dict(zip(INPUTS, (np.float32(value) for value in build_inputs())))
    made = {}
    for name, op, *reads in LINES:
        made[name] = op
        if CONFIGS[config] and op == "abs" and made.get(reads[0]) == "neg":
            values[name] = values[reads[0]]
        else:
            values[name] = {**UNARY, **BINARY}[op](*(values[each] for each in reads))
    save_outputs(path, [("out", values[name].dtype.name, values[name])])
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
