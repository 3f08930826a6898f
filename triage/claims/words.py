"""The words for a configuration: what a maintainer of its package would call it."""

from __future__ import annotations

from oracles.run import Config, Phase, Run
from triage.projects import GENERAL, Project, project_of


def in_words(config: Config, project: Project) -> str:
    """Name a configuration behind a verb, as in "at optimisation level `all`"; `project` is the target's."""
    if config.backend:
        return f"by {REFERENCES[config.backend]}" if is_reference(config) else f"with {whose(config)}"
    return project.words.of(config) or f"in the configuration `{config.label}`"


def in_short(config: Config) -> str:
    """Name a configuration for the head of a column or a title: `all`, `eager`, `onnxruntime`."""
    return owner(config) if config.backend else config.label


def only_with(failing: Config, passing: Config, project: Project) -> str:
    """Say at the end of a title what the failure requires; empty if that is plain."""
    if passing.backend:
        return ""
    return f" ({project.words.kind}{in_short(failing)}, not {in_short(passing)})"


def while_doing(run: Run, project: Project) -> str:
    """Say what the framework was doing when the run ended, such as "while it runs the model"."""
    words = {
        Phase.IMPORT: "while it loads the model",
        Phase.OPTIMISE: project.words.optimising(run.config),
        Phase.CODEGEN: "while it compiles the model",
        Phase.EXECUTE: "while it runs the model",
    }
    return words.get(run.phase, f"during {run.phase.value}")


REFERENCES = {
    "golden": "numpy, with floats in float64",
    "interpreter": "an interpreter of the loops in Python",
}
"""The references that an oracle compares with, and how each computes."""


def is_reference(config: Config) -> bool:
    """Return whether a run is no compiler's."""
    return config.backend in REFERENCES


def whose(config: Config) -> str:
    """Name the source of the values that a script compares with, such as `un-optimised onnxruntime`."""
    return REFERENCES[config.backend] if is_reference(config) else f"un-optimised {owner(config)}"


def owner(config: Config) -> str:
    """Whose run it is, if it is a baseline of another backend: the project, or else the backend."""
    if is_reference(config):
        return "numpy" if config.backend == "golden" else config.backend
    found = project_of(config.backend)
    return config.backend if found is GENERAL else found.name
