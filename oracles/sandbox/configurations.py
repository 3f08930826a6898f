"""The ways in which a target runs a case: the baseline first, then what is compared with it."""

from __future__ import annotations

from dataclasses import replace

from corpus.errors import UserError
from corpus.formats import find_format
from corpus.target import Target
from oracles.backends import find_backend
from oracles.run import Config


def configs_of(target: Target, format: str) -> tuple[Config, ...]:
    """Return the configurations of a target for programs of a format, the un-optimised baseline first.

    The baseline may be another backend's. Raises `UserError` if the target runs no such programs.
    """
    configs = _configs_of(target, format)
    if find_backend(target.backend).sequences is not None:
        return (unsequenced(configs[0], configs[0].label), *configs[1:])
    return configs


def unsequenced(config: Config, label: str) -> Config:
    """Return the way without a case's own sequence of passes: OATest's oracle compares the two."""
    return replace(config, label=label, settings=(*config.settings, ("passes", ())))


def without_twins(configs: tuple[Config, ...], passes: tuple[str, ...]) -> tuple[Config, ...]:
    """Return the ways without others that differ from the baseline by a case's passes, if it has none."""
    if passes:
        return configs
    baseline, *others = configs
    return (baseline, *(way for way in others if unsequenced(way, baseline.label) != baseline))


def _configs_of(target: Target, format: str) -> tuple[Config, ...]:
    backend = find_backend(target.backend)
    graphs = backend.graphs_of(format)
    if graphs is not None:
        return (graphs.configs or backend.configs)(target)
    if format not in backend.formats:
        usual = find_format(format).target
        raise UserError(f"target {target}: runs no {format} programs; choose another, such as {usual}")
    own = backend.configs(target)
    name = backend.baseline
    if not name:
        return own
    first = find_backend(name).configs(Target(name))[0]
    return (replace(first, label=f"{name} {first.label}", backend=name), *own)
