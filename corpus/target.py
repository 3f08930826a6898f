"""What a case is run on, written `ort:cuda@opt=all@python=/path`, and releases in their order."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from corpus.errors import UserError

SETTINGS = frozenset(
    (
        *("backend", "disabled_optimizers", "executor", "exporter", "opt", "opt-level", "oracles", "passes"),
        *("pipeline", "run", "slower", "threads"),
    )
)
"""Settings that choose among what a backend has; any other, such as `python`, may say what code runs."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_VALUE = re.compile(r"[A-Za-z0-9_.,:+()=-]{1,65536}")
_MOST_TEXT = 1 << 17


@dataclass(frozen=True, slots=True)
class Target:
    """A backend with its device (`cpu`, `cuda`, an execution provider's name) and `@key=value` settings."""

    backend: str
    device: str = "cpu"
    settings: tuple[tuple[str, str], ...] = ()
    is_foreign: bool = field(default=False, compare=False)
    """Whether a file or a database brought it along: such a target may only choose among what is there."""

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read `BACKEND[:DEVICE][@key=value…]`; raises `UserError` when it is not of that form.

        Whether there is such a backend is for `oracles.backends` to say.
        """
        head, *pairs = text.split("@")
        backend, _, device = head.partition(":")
        if not backend:
            raise UserError(f"target {text!r}: write BACKEND[:DEVICE][@key=value…], for example `ort`")
        settings = []
        for pair in pairs:
            key, equals, value = pair.partition("=")
            if not (key and equals):
                raise UserError(f"target {text!r}: write a setting as @key=value, not {'@' + pair!r}")
            settings.append((key, value))
        return cls(backend, device or "cpu", tuple(sorted(settings)))

    @classmethod
    def of_data(cls, text: str) -> Target:
        """Read the target that a file or a database names; raises `UserError` for what can be none."""
        if len(text) > _MOST_TEXT:
            raise UserError(f"target {text[:80]!r}…: is {len(text)} characters long; give --target yourself")
        return replace(cls.parse(text), is_foreign=True)

    @property
    def complaint(self) -> str:
        """What in a foreign target decides more than a choice among what is there; empty if nothing does."""
        if not self.is_foreign:
            return ""
        for name in (self.backend, self.device):
            if not _NAME.fullmatch(name):
                return name[:120]
        for key, value in self.settings:
            if key not in SETTINGS or not _VALUE.fullmatch(value):
                return f"@{key}={value}"[:120]
        return ""

    def get(self, key: str, default: str = "") -> str:
        """The text of a setting, or the default."""
        return dict(self.settings).get(key, default)

    def chosen(self, key: str, known: Sequence[str]) -> str:
        """The text of a setting, by default the first one known; raises `UserError` for an unknown one."""
        value = self.get(key, known[0])
        if value not in known:
            raise UserError(f"target {self}: @{key}= is one of {', '.join(known)}")
        return value

    def must_be_on(self, devices: Collection[str], words: str) -> None:
        """Raise `UserError` in these words if the device is none of these."""
        if self.device not in devices:
            raise UserError(f"target {self}: {words}")

    def with_setting(self, key: str, value: str) -> Target:
        """The target with a setting put in or replaced."""
        return replace(self, settings=tuple(sorted({**dict(self.settings), key: value}.items())))

    def without_setting(self, key: str) -> Target:
        """The target without a setting."""
        return replace(self, settings=tuple(pair for pair in self.settings if pair[0] != key))

    def __str__(self) -> str:
        device = "" if self.device == "cpu" else f":{self.device}"
        return self.backend + device + "".join(f"@{key}={value}" for key, value in self.settings)


def is_before(release: str, other: str) -> bool:
    """Whether a release is older: a nightly build is before its release, `1.31.1.post0` is not."""
    return order_of(release) < order_of(other)


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
