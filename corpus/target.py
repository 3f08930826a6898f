"""What a case is run on: a backend, a device and settings, written `ort:cuda@opt=all@python=/path`."""

from __future__ import annotations

from dataclasses import dataclass, replace

from corpus.errors import UserError

PROGRAMS = frozenset({"python", "library", "plugin"})
"""Settings whose value is a program, or code that is loaded, whatever it looks like."""


@dataclass(frozen=True, slots=True)
class Target:
    """A backend with its device (`cpu`, `cuda`, an execution provider's name) and `@key=value` settings."""

    backend: str
    device: str = "cpu"
    settings: tuple[tuple[str, str], ...] = ()

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

    @property
    def programs(self) -> tuple[str, ...]:
        """Return the settings that name a program or a path: they decide what code runs."""
        return tuple(
            f"@{key}={value}"
            for key, value in self.settings
            if key in PROGRAMS or "/" in value or "\\" in value or value.startswith("~")
        )

    def get(self, key: str, default: str = "") -> str:
        """Return the text of a setting, or the default."""
        return dict(self.settings).get(key, default)

    def with_setting(self, key: str, value: str) -> Target:
        """Return the target with a setting put in or replaced."""
        return replace(self, settings=tuple(sorted({**dict(self.settings), key: value}.items())))

    def without_setting(self, key: str) -> Target:
        """Return the target without a setting."""
        return replace(self, settings=tuple(pair for pair in self.settings if pair[0] != key))

    def __str__(self) -> str:
        device = "" if self.device == "cpu" else f":{self.device}"
        return self.backend + device + "".join(f"@{key}={value}" for key, value in self.settings)
