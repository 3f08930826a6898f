"""Known issues: matchers over the components of signatures, by package and release.

Shipped in `known_issues.toml`; a file beside the database, `DATABASE.known.toml`, adds a user's own. An
entry is a table `[issue-id]` with `title`, `package`, `issue` (its thread's address, or `not filed` for a bug
that crux knows and nobody has filed), `seen` (releases on which it was seen), `since` and `fixed` (the
first release with it, the first without it again), and `match`: for each component of a signature a regular
expression that its whole text must match. `suppress = true` leaves its clusters out of lists; without, they
are tagged.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpus.case import Case
from corpus.errors import UserError
from corpus.reading import parse_toml, read_address, read_text, read_toml, write_fresh
from corpus.target import is_before
from oracles.naming import Signature, signature
from oracles.verdict import Outcome, Verdict
from triage.clustering.similarity import RELATED, compare, group_of
from triage.projects import project_of, project_of_package
from triage.store.clusters import BY_SYMPTOM, clusters, get_cluster, signatures_of
from triage.store.database import OWN, Store, own_file
from triage.store.failures import releases_of
from triage.store.names import cluster_name

SHIPPED = Path(__file__).with_name("known_issues.toml")
MOST_BYTES = 4 << 20
WEB = ("https://", "http://")
URL = re.compile(r"(https?://[^\s<>()\[\]`\"'|\\]{1,1000})?")
ID = re.compile(r"[\w.#/-]{1,200}")
FIELDS = {
    **dict.fromkeys(("title", "package", "since", "fixed", "issue"), str),
    **{"match": dict, "suppress": bool, "seen": list},
}
MOST_NAME = 40
WRITTEN, WRITTEN_IF_SET = ("title", "package", "issue", "seen"), ("since", "fixed", "suppress")
NOT_FILED = "not filed"
"""The `issue` of a bug that is known to crux and to file all the same."""


@dataclass(frozen=True, slots=True)
class KnownIssue:
    """A bug that is known, and which signatures are its own."""

    id: str
    title: str
    package: str
    match: Mapping[str, str]
    since: str = ""
    fixed: str = ""
    issue: str = ""
    seen: tuple[str, ...] = ()
    suppress: bool = False
    patterns: Mapping[str, re.Pattern[str]] = field(default_factory=dict, compare=False)

    @property
    def is_filed(self) -> bool:
        """Whether its project has a thread about it, so that another one would be a duplicate."""
        return self.issue != NOT_FILED

    def holds_for(self, facts: Mapping[str, str]) -> bool:
        """Whether every component of a signature that the entry names matches in whole."""
        if not self.is_of(facts.get("backend", "")):
            return False
        return all(pattern.fullmatch(facts.get(name, "")) for name, pattern in self.patterns.items())

    def is_of(self, backend: str) -> bool:
        """Whether it is a bug of what that backend runs."""
        return backend in (project_of_package(self.package).backends or (self.package,))

    def is_alive_on(self, release: str) -> bool:
        """Whether a failure on that release can be this one: not before it came, nor from its mending on."""
        if not release:
            return True
        is_old = bool(self.since) and is_before(release, self.since)
        return not is_old and not (self.fixed and not is_before(release, self.fixed))


def known_issue(
    issues: Iterable[KnownIssue], signatures: Sequence[Signature], releases: Sequence[str]
) -> KnownIssue | None:
    """The first entry that matches one of the signatures and is not fixed in an earlier release."""
    every = [dict(signature.components) for signature in signatures]
    for issue in issues:
        if any(map(issue.holds_for, every)) and all(map(issue.is_alive_on, releases)):
            return issue
    return None


TOLD_AT_ONCE = frozenset(("outcome", "phase", "side", "error", "site", "message"))
"""Components of a signature that are the failure's own words, which no reduction changes."""


def known_at_once(
    issues: Iterable[KnownIssue], case: Case, verdict: Verdict, release: str
) -> Signature | None:
    """The signature of a failure as it was met, if a known issue is told by the failure's words alone."""
    if verdict.symptom is None or verdict.outcome is not Outcome.EXCEPTION:
        return None
    telling = [each for each in issues if each.patterns.keys() <= TOLD_AT_ONCE]
    found = signature(verdict, None, case)
    return found if known_issue(telling, (found,), (release,)) else None


def load_known(database: Path, named: str = "") -> tuple[KnownIssue, ...]:
    """The user's own entries (from a file or an address) first, then the shipped ones."""
    own = own_file(database)
    return (
        *(read_known(named) if named else ()),
        *(read_known(own) if os.path.lexists(own) else ()),
        *read_known(SHIPPED),
    )


def read_known(place: Path | str) -> tuple[KnownIssue, ...]:
    """The entries of a file, or of an address that begins with http; `UserError` where one cannot be used."""
    path, advice = Path(place), "name a file of known issues"
    if str(place).startswith(WEB):
        entries = parse_toml(read_address(str(place), MOST_BYTES), str(place), advice)
    else:
        entries = read_toml(path, MOST_BYTES, advice)
    return tuple(_entry(path, name, facts) for name, facts in entries.items())


def _entry(path: Path, name: str, facts: Any) -> KnownIssue:
    where = f"{path}: [{name}]"
    if not isinstance(facts, dict) or not {"title", "package", "match"} <= facts.keys():
        raise UserError(f"{where}: needs title, package and match")
    wrong = [key for key, value in facts.items() if not isinstance(value, FIELDS.get(key, ()))]
    is_filed = facts.get("issue", "") != NOT_FILED
    if not ID.fullmatch(name) or (is_filed and not URL.fullmatch(str(facts.get("issue", "")))):
        raise UserError(f"{path}: [{name[:80]!r}] needs a plain id, and a link that begins with https://")
    if wrong or not facts["match"]:
        raise UserError(f"{where}: cannot read {', '.join(wrong) or 'an empty match'}")
    try:
        patterns = {component: re.compile(text) for component, text in facts["match"].items()}
    except (re.error, TypeError) as error:
        raise UserError(f"{where}: a match is no regular expression ({error})") from error
    return KnownIssue(id=name, patterns=patterns, **{**facts, "seen": tuple(facts.get("seen", ()))})


def known_of_cluster(store: Store, cluster: int, issue: str) -> KnownIssue:
    """A cluster as a known issue of that address: whatever has its signature in every component is one."""
    if issue != NOT_FILED and not issue.startswith(WEB):
        raise UserError(f"--issue {issue}: no address, and not '{NOT_FILED}'")
    named = [each.signature for each in signatures_of(store, cluster) if each.how != BY_SYMPTOM]
    if not named:
        raise UserError(
            f"{cluster_name(cluster)}: nothing of it is reduced yet, so it has no signature to match"
        )
    facts = dict(named[0].components)
    project = project_of(facts.pop("backend", ""))
    match = {name: re.escape(text) for name, text in facts.items() if text}
    title, seen = get_cluster(store, cluster).title, tuple(releases_of(store, cluster))
    name = (
        re.sub(r"\W+", "-", title.lower()).strip("-")[:MOST_NAME].rstrip("-") or cluster_name(cluster).lower()
    )
    return KnownIssue(name, title, project.package, match, issue=issue, seen=seen)


def add_own(database: Path, issue: KnownIssue) -> Path:
    """Add an entry to the user's own file beside the database; `UserError` if it has one of that name."""
    path = own_file(database)
    if path.exists() and any(each.id == issue.id for each in read_known(path)):
        raise UserError(f"{path}: has an entry [{issue.id}]; change it there")
    match = ", ".join(f"{name} = {json.dumps(text)}" for name, text in issue.match.items())
    names = [*WRITTEN, *(name for name in WRITTEN_IF_SET if getattr(issue, name))]
    lines = [f"[{issue.id}]", *(f"{name} = {json.dumps(getattr(issue, name))}" for name in names)]
    before = f"{read_text(path, MOST_BYTES).rstrip()}\n\n" if path.exists() else ""
    write_fresh(path, before + "\n".join([*lines, f"match = {{ {match} }}"]) + "\n")
    return path


def take_known(database: Path, source: Path) -> int:
    """Add the entries beside another database, or of its export, whose names are new here; how many."""
    theirs = source.glob(f"*{OWN}") if source.is_dir() else [own_file(source)]
    mine = {each.id for each in load_known(database)}
    found = [each for path in theirs if path.is_file() for each in read_known(path) if each.id not in mine]
    for each in found:
        add_own(database, each)
    return len(found)


@dataclass(frozen=True)
class Library:
    """`signatures` are those of every cluster, by its name."""

    issues: tuple[KnownIssue, ...] = ()
    signatures: Mapping[str, tuple[Signature, ...]] = field(default_factory=dict)

    @classmethod
    def shipped(cls) -> Library:
        """The known issues that come with crux, and no cluster."""
        return cls(read_known(SHIPPED))

    @classmethod
    def of_store(cls, store: Store, issues: tuple[KnownIssue, ...]) -> Library:
        """The known issues, with the bugs of a store."""
        found = {
            each.name: tuple(alias.signature for alias in signatures_of(store, each.id))
            for each in clusters(store)
        }
        return cls(issues, found)

    def known(self, signature: Signature, release: str) -> KnownIssue | None:
        """The known issue that the signature is, on that release."""
        return known_issue(self.issues, (signature,), (release,))

    def similar(self, signature: Signature, own: str = "") -> dict[str, float]:
        """The other clusters that may be the same bug, with their distance, the nearest first."""
        found = {}
        for name, others in self.signatures.items():
            near = [
                compare(signature, each).distance
                for each in others
                if group_of(each) == group_of(signature) and each.digest != signature.digest
            ]
            if name != own and min(near, default=1.0) <= RELATED:
                found[name] = min(near)
        return dict(sorted(found.items(), key=lambda item: (item[1], item[0])))
