"""The contract that a backend keeps, tried on it: what `crux doctor --backend` asks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from corpus.target import Target
from corpus.values import Value
from oracles.abilities import Backend
from oracles.sandbox.sandbox import Job, Sandbox, SandboxError
from oracles.verdict import Config, Phase, Run, Status
from triage.language import language_of

ABILITIES = {
    "baseline": "a backend to compare with, where there is no un-optimised configuration",
    "passes": "`crux passes`, and the names of passes in reports",
    "sequences": "passes in any order: `@passes=A,B`",
    "tells_operators": "campaigns of the operators that it has",
    "libraries": "coverage of its machine code",
}
"""Fields of `Backend` that may be left out, and what each gives."""

X = np.array([-1, 2], np.float32)
TYPES = ("float32", "float64", "int64", "bool")


class Broken(Exception):
    """A clause that the backend does not keep; its text says how."""


@dataclass(frozen=True)
class Trial:
    """A backend under trial, in a sandbox of its own."""

    backend: Backend
    configs: tuple[Config, ...]
    sandbox: Sandbox

    def run(self, op: str, value: Value = X, outputs: tuple[str, ...] | None = None) -> tuple[Run, ...]:
        """The runs of `y = op(x)`, `z = op(y)` in every configuration."""
        return self.sandbox.run(
            Job(_model(op, np.asarray(value)), {"x": value}, self.configs, outputs=outputs)
        )


def _model(op: str, x: np.ndarray) -> bytes:
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    ends = [helper.make_tensor_value_info(name, kind, x.shape) for name in "xyz"]
    nodes = [helper.make_node(op, ["x"], ["y"]), helper.make_node(op, ["y"], ["z"])]
    graph = helper.make_graph(nodes, "trial", ends[:1], ends[1:])
    model: onnx.ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    return bytes(model.SerializeToString())


Clause = Callable[[Trial], str]
"""Tries one thing and says what was seen; raises `Broken`."""


def _is_configured(trial: Trial) -> str:
    labels = [config.label for config in trial.configs]
    if len(set(labels)) < len(labels) or not labels:
        raise Broken(f"two configurations share a label, or there is none: {labels}")
    if len(labels) < 2 and not trial.backend.baseline:
        raise Broken("there is one configuration and no baseline: nothing to compare")
    if said := trial.backend.classify(Run(trial.configs[0], Status.OK, Phase.EXECUTE)):
        raise Broken(f"classify calls a good run {said!r}; it gives '' for what may be a bug")
    return ", ".join(labels)


def _starts(trial: Trial) -> str:
    release = trial.sandbox.facts["version"]
    if not isinstance(release, str) or not release:
        raise Broken(f"load() gives {release!r}; it gives the framework's version as text")
    return f"{trial.backend.package} {release}"


def _runs_a_model(trial: Trial) -> str:
    for run in trial.run("Neg"):
        _must_give(run, {"y": -X, "z": X})
        if run.phase is not Phase.EXECUTE:
            raise Broken(f"{run.config.label}: it ends in the phase {run.phase}; call enter('execute')")
    return "in every configuration"


def _must_give(run: Run, wanted: dict[str, Value]) -> None:
    if not run.is_ok:
        raise Broken(f"{run.config.label}: {run.error or run.status.value}: {run.message}")
    if sorted(run.outputs) != sorted(wanted):
        raise Broken(f"{run.config.label}: outputs {sorted(run.outputs)} where {sorted(wanted)} are wanted")
    for name, value in wanted.items():
        found, right = np.asarray(run.outputs[name]), np.asarray(value)
        if found.dtype != right.dtype or not np.array_equal(found, right):
            raise Broken(f"{run.config.label}: {name} is {found.dtype} {found} and not {right.dtype} {right}")


def _gives_what_is_asked(trial: Trial) -> str:
    for run in trial.run("Neg", outputs=("y",)):
        _must_give(run, {"y": -X})
    return "and no other output"


def _keeps_types(trial: Trial) -> str:
    refused = []
    for kind in TYPES:
        value = X.astype(kind)
        for run in trial.run("Identity", value):
            if trial.backend.classify(run) == "unsupported":
                refused.append(kind)
            else:
                _must_give(run, {"y": value, "z": value})
    return f"lacks {', '.join(dict.fromkeys(refused))}" if refused else ", ".join(TYPES)


def _refuses(trial: Trial) -> str:
    for run in trial.run("NoSuchOperator"):
        if run.status is not Status.EXCEPTION:
            raise Broken(f"{run.config.label}: {run.status.value}; raise an exception")
        if (said := trial.backend.classify(run)) != "unsupported":
            raise Broken(f"classify calls it {said!r} and not 'unsupported': {run.message}")
    return "is unsupported"


def _repeats_itself(trial: Trial) -> str:
    value = np.linspace(-3, 3, 24, dtype=np.float32)
    for one, other in zip(trial.run("Tanh", value), trial.run("Tanh", value), strict=True):
        if one.is_ok and other.is_ok:
            _must_give(other, dict(one.outputs))
    return "two runs give the same bits"


CLAUSES: tuple[tuple[str, Clause, str], ...] = (
    (
        "configurations",
        _is_configured,
        "configs(target): the un-optimised one first, each with its own label",
    ),
    (
        "load",
        _starts,
        "load() imports the framework in the worker and returns its version; it starts no thread",
    ),
    ("runs a model", _runs_a_model, "run(program, inputs, settings, outputs, enter)"),
    (
        "outputs",
        _gives_what_is_asked,
        "return the tensors named in outputs, all of the model's if it is None",
    ),
    ("dtypes", _keeps_types, "keep the dtype, or say in classify() which error means unsupported"),
    ("unknown operator", _refuses, "raise, and say in classify() that this error means unsupported"),
    ("repeats itself", _repeats_itself, "seed what is random, or forks=True if state survives a run"),
)
OF_MODELS = 2
"""Where the clauses begin that need ONNX models."""


def keeps_contract(backend: Backend) -> Iterator[tuple[str, str, str]]:
    """Yield each clause's name with what was seen, and what to do where it is not kept, else empty."""
    takes_models = any(language_of(each).has_model for each in backend.formats)
    clauses = CLAUSES if takes_models else CLAUSES[:OF_MODELS]
    with Sandbox(backend.name) as sandbox:
        trial = Trial(backend, backend.configs(Target(backend.name)), sandbox)
        for part, clause, advice in clauses:
            try:
                yield part, clause(trial), ""
            except (Broken, SandboxError) as error:
                yield part, " ".join(str(error).split())[:200], advice
