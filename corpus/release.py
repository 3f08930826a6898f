"""Releases in their order, and ranges of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from corpus.errors import UserError


def is_before(release: str, other: str) -> bool:
    """Whether a release is older than another: by its numbers; `1.31.1.post0` is not before `1.31.1`."""
    return numbers(release) < numbers(other)


def numbers(release: str) -> tuple[int, ...]:
    """The numbers that order releases; a local part such as `+cpu` names another build of one."""
    return tuple(int(number) for number in re.findall(r"\d+", release.partition("+")[0]))


_STAGES = {"dev": -4, "a": -3, "b": -2, "rc": -1, "post": 1}
_STAGED = re.compile(r"(?P<main>[\d.]*\d)[._-]?(?P<stage>dev|a|b|rc|post)[._-]?(?P<number>\d*)")


def order_of(release: str) -> tuple[tuple[int, ...], int, int]:
    """A key by which releases are sorted, nightly ones too: `1.32.0.dev20261121` comes before `1.32.0`."""
    staged = _STAGED.match(release.partition("+")[0])
    if staged is None:
        return _main(release), 0, 0
    return _main(staged["main"]), _STAGES[staged["stage"]], int(staged["number"] or 0)


def is_early(release: str) -> bool:
    """Whether it comes before the release of its number: a nightly build, a candidate."""
    return order_of(release)[1] < 0


def _main(release: str) -> tuple[int, ...]:
    """The numbers without zeros at their end: 1.32 is 1.32.0."""
    found = numbers(release)
    while found and not found[-1]:
        found = found[:-1]
    return found


@dataclass(frozen=True, slots=True)
class Range:
    """A range of releases, both ends included; an empty end is open."""

    oldest: str
    newest: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `A..B`, `A..`, `..B` or `..`; raises `UserError`."""
        oldest, dots, newest = (part.strip() for part in text.partition(".."))
        form = re.compile(r"\d[\w.]*|")
        if not (dots and form.fullmatch(oldest) and form.fullmatch(newest)):
            raise UserError(f"versions {text!r}: write A..B, such as 1.15.0..1.31.1; an end may be empty")
        if oldest and newest and is_before(newest, oldest):
            raise UserError(f"versions {text!r}: {newest} is older than {oldest}")
        return cls(oldest, newest)

    def holds(self, release: str) -> bool:
        """Whether a release lies in the range, its ends included."""
        too_old = bool(self.oldest) and is_before(release, self.oldest)
        return not too_old and not (bool(self.newest) and is_before(self.newest, release))
