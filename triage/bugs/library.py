"""What is known already: known issues, and the clusters of a database, to look a new signature up in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from oracles.naming.signature import Signature
from triage.bugs.known import SHIPPED, KnownIssue, known_issue, load_known, read_known
from triage.clustering.similarity import RELATED, compare, group_of
from triage.store.clusters import clusters, signatures_of
from triage.store.database import Store


@dataclass(frozen=True)
class Library:
    """`signatures` are those of every cluster, by its name."""

    issues: tuple[KnownIssue, ...] = ()
    signatures: Mapping[str, tuple[Signature, ...]] = field(default_factory=dict)

    @classmethod
    def shipped(cls) -> Library:
        """Return the known issues that come with crux, and no cluster."""
        return cls(read_known(SHIPPED))

    @classmethod
    def of_store(cls, store: Store, known: Path | None = None) -> Library:
        """Collect the bugs of a store and the known issues; `known` is a file of more of these."""
        found = {
            each.name: tuple(alias.signature for alias in signatures_of(store, each.id))
            for each in clusters(store)
        }
        return cls(load_known(store.path, known), found)

    def known(self, signature: Signature, release: str) -> KnownIssue | None:
        """Return the known issue that the signature is, on that release."""
        return known_issue(self.issues, (signature,), (release,))

    def similar(self, signature: Signature, own: str = "") -> dict[str, float]:
        """Return the other clusters that may be the same bug, with their distance, the nearest first."""
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
