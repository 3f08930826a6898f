"""Full-text search over the titles, symptoms and signatures of failures."""

from __future__ import annotations

import re

from corpus.errors import UserError
from triage.store.database import Store


def find_clusters(store: Store, words: str) -> frozenset[int]:
    """Return the clusters of the failures that hold all the words, or words that begin so."""
    sql = "SELECT DISTINCT cluster FROM failures WHERE id IN (SELECT rowid FROM failures_search(?))"
    return frozenset(int(row["cluster"]) for row in store.rows(sql, (_query(words),)))


def _query(words: str) -> str:
    """FTS5's syntax for beginnings of words: what a person types is never read as syntax.

    A name such as `relu_clip_fusion.cc` is several words to the index.
    """
    found = re.findall(r"[^\W_]+", words)
    if not found:
        raise UserError(f"--search {words!r}: holds no word")
    return " ".join(f'"{word}"*' for word in found)
