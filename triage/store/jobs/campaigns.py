"""Campaigns in the store: what their blocks taught, so that the next run on the target draws from it."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from corpus.reading import unpack
from generators.learning import LESSON
from triage.store.database import Store, dump, now, parsed

MOST_LESSON = 1 << 28
MOST_MOMENTS = 256
"""At which a campaign keeps what its arms had earned."""
Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Campaign:
    """The line of seeds of one target: the first one, and the first that no lesson tells of."""

    id: int
    first_seed: int
    next_seed: int


def start_campaign(store: Store, target: str, first_seed: int) -> Campaign:
    """Return a new campaign of a target."""
    with store.transaction():
        values = {"target": target, "first_seed": first_seed, "started": now()}
        return Campaign(store.insert("campaigns", values), first_seed, first_seed)


def last_campaign(store: Store, target: str) -> Campaign | None:
    """Return the campaign of a target that has come furthest; None where there is none."""
    row = store.row(
        """SELECT id, first_seed, coalesce(max(next_seed), first_seed) AS next_seed
           FROM campaigns LEFT JOIN lessons ON campaign = id WHERE target = ?
           GROUP BY id ORDER BY 3 DESC, id DESC LIMIT 1""",
        (target,),
    )
    return Campaign(**row) if row else None


def keep_lesson(store: Store, campaign: int, block: int, next_seed: int, document: Document) -> None:
    """Keep what a block has taught so far, and the seed after its last test."""
    store.write(
        """INSERT INTO lessons VALUES (?, ?, ?, ?) ON CONFLICT (campaign, block) DO UPDATE
           SET next_seed = excluded.next_seed, document = excluded.document""",
        (campaign, block, next_seed, _packed(document)),
    )


def keep_folded(store: Store, campaign: int, blocks: int, document: Document) -> None:
    """Keep what the first blocks taught together; their own lessons go."""
    with store.transaction():
        store.write(
            """INSERT INTO learned VALUES (?, ?, ?) ON CONFLICT (campaign) DO UPDATE
               SET blocks = excluded.blocks, document = excluded.document""",
            (campaign, blocks, _packed(document)),
        )
        store.write("DELETE FROM lessons WHERE campaign = ? AND block < ?", (campaign, blocks))


def keep_arms(store: Store, campaign: int, blocks: int, arms: Mapping[str, tuple[int, float]]) -> None:
    """Keep each arm's tests and earnings after a number of blocks."""
    with store.transaction():
        for arm, (tests, earned) in sorted(arms.items()):
            values = (campaign, blocks, arm, tests, round(earned, 3))
            store.write("INSERT OR REPLACE INTO arms VALUES (?, ?, ?, ?, ?)", values)
        _thin_arms(store, campaign)


def _thin_arms(store: Store, campaign: int) -> None:
    """Drop every other moment of the arms, but the last, if too many are kept."""
    rows = store.rows("SELECT DISTINCT blocks FROM arms WHERE campaign = ? ORDER BY blocks", (campaign,))
    if len(rows) > MOST_MOMENTS:
        for each in rows[-2::-2]:
            store.write("DELETE FROM arms WHERE campaign = ? AND blocks = ?", (campaign, each["blocks"]))


def load_folded(store: Store, campaign: int) -> tuple[int, dict[str, Any]]:
    """Load the number of folded blocks, and their common lesson."""
    row = store.row("SELECT blocks, document FROM learned WHERE campaign = ?", (campaign,))
    return (int(row["blocks"]), _unpacked(row["document"])) if row else (0, {})


def load_lessons(store: Store, campaign: int) -> dict[int, dict[str, Any]]:
    """Load the lessons that are not folded yet, by block."""
    rows = store.rows("SELECT block, document FROM lessons WHERE campaign = ? ORDER BY block", (campaign,))
    return {int(row["block"]): _unpacked(row["document"]) for row in rows}


def keep_refusals(store: Store, package: str, release: str, forms: Iterable[str]) -> None:
    """Keep what a release was seen to refuse."""
    with store.transaction():
        for form in sorted(forms):
            store.write("INSERT OR IGNORE INTO refusals VALUES (?, ?, ?)", (package, release, form))


def load_refusals(store: Store, package: str, release: str) -> frozenset[str]:
    """Load what a release was seen to refuse."""
    rows = store.rows("SELECT form FROM refusals WHERE package = ? AND release = ?", (package, release))
    return frozenset(str(row["form"]) for row in rows)


def _packed(document: Document) -> bytes:
    return zlib.compress(dump(document).encode(), 3)


def _unpacked(content: bytes) -> dict[str, Any]:
    found: dict[str, Any] = parsed(unpack(content, MOST_LESSON, "a lesson"), LESSON, "a lesson")
    return found
