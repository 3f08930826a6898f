"""The command that goes on from one: `next:` lines carry the options that were given."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from triage.console.options import StoreOptions
from triage.console.output import quoted

UNCARRIED = frozenset({"json", "color", "quiet", "usual_database", "usual_target"})
"""Shared options that the next command need not have: how this one prints, and settings."""


def next_command(words: str, options: StoreOptions, **also: object) -> str:
    """Write a command that goes on from this one: with its options, and with `also` by their names."""
    return " ".join(["crux", words, *_given(options), *_spelt(also)])


def _given(options: StoreOptions) -> list[str]:
    """The shared options that were given, as words of a command line."""
    named = {each.name: (getattr(options, each.name), each.default) for each in dataclasses.fields(options)}
    return _spelt(
        {name: value for name, (value, usual) in named.items() if value != usual and name not in UNCARRIED}
    )


def _spelt(values: Mapping[str, object]) -> list[str]:
    """Options with their values, quoted for a shell; an empty value is left out, true is the name alone."""
    named = {f"--{name.replace('_', '-')}": value for name, value in values.items() if value}
    return [name if value is True else f"{name} {quoted(str(value))}" for name, value in named.items()]
