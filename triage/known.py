"""Known issues: matchers over the components of signatures, by package and release.

Shipped in `known_issues.toml`; a file beside the database, `DATABASE.known.toml`, adds a user's own. An entry
is a table `[issue-id]` with `title`, `package`, `fixed` (the first release without it, if there is one),
`url`, and `match`: for each component of a signature a regular expression that its whole text must match.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpus.errors import UserError
from oracles.signature import Signature
from triage.releases import is_before

SHIPPED = Path(__file__).with_name("known_issues.toml")
FIELDS = {"title": str, "package": str, "fixed": str, "url": str, "match": dict}
BACKENDS = {"onnxruntime": "ort", "apache-tvm": "tvm", "torch": "inductor"}


@dataclass(frozen=True, slots=True)
class KnownIssue:
    """A bug that is known, and which signatures are its own."""

    id: str
    title: str
    package: str
    match: Mapping[str, str]
    fixed: str = ""
    url: str = ""
    patterns: Mapping[str, re.Pattern[str]] = field(default_factory=dict, compare=False)

    def holds_for(self, signature: Signature) -> bool:
        """Whether every component that the entry names matches in whole."""
        facts = dict(signature.components)
        if facts.get("backend") != BACKENDS.get(self.package, self.package):
            return False
        return all(pattern.fullmatch(facts.get(name, "")) for name, pattern in self.patterns.items())

    def is_alive_on(self, release: str) -> bool:
        """Whether a failure on that release can be this one: not from the release on that fixed it."""
        return not (self.fixed and release) or is_before(release, self.fixed)


def known_issue(
    issues: Iterable[KnownIssue], signatures: Sequence[Signature], releases: Sequence[str]
) -> KnownIssue | None:
    """The first entry that one of the signatures matches and that no release has outlived."""
    for issue in issues:
        if all(map(issue.is_alive_on, releases)) and any(map(issue.holds_for, signatures)):
            return issue
    return None


def load_known(database: Path, named: Path | None = None) -> tuple[KnownIssue, ...]:
    """A user's own entries (those of a file that is named first), then the shipped ones."""
    own = own_file(database)
    return (
        *(read_known(named) if named else ()),
        *(read_known(own) if own.exists() else ()),
        *read_known(SHIPPED),
    )


def own_file(database: Path) -> Path:
    return database.with_name(database.name + ".known.toml")


def read_known(path: Path) -> tuple[KnownIssue, ...]:
    """The entries of a file; raises `UserError` where one cannot be used."""
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: no file of known issues ({error})") from error
    return tuple(_entry(path, name, facts) for name, facts in entries.items())


def _entry(path: Path, name: str, facts: Any) -> KnownIssue:
    where = f"{path}: [{name}]"
    if not isinstance(facts, dict) or not {"title", "package", "match"} <= facts.keys():
        raise UserError(f"{where}: needs title, package and match")
    wrong = [key for key, value in facts.items() if not isinstance(value, FIELDS.get(key, ()))]
    if wrong or not facts["match"]:
        raise UserError(f"{where}: cannot read {', '.join(wrong) or 'an empty match'}")
    try:
        patterns = {component: re.compile(text) for component, text in facts["match"].items()}
    except (re.error, TypeError) as error:
        raise UserError(f"{where}: a match is no regular expression ({error})") from error
    return KnownIssue(id=name, patterns=patterns, **facts)
