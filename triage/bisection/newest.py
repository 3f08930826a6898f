"""The newest release of a package, and its newest pre-release, by the package index: asked once a day."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from corpus.errors import UserError
from corpus.reading import Fields, Text, cache_folder, held_to, read_json, write_fresh
from corpus.release import is_early, order_of
from triage.bisection.package_index import newest_releases

DAY, HOUR = 86_400.0, 3_600.0
"""How long an answer holds, and how long it is not asked again where there was none."""
NOT_ASKED = "the package index was not asked (--offline)"
_RELEASE = Text(r"[0-9A-Za-z.+_-]{0,64}")
_ANSWER = Fields({"asked": float, "release": _RELEASE, "early": _RELEASE, "why": Text(most=1000)})


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest release, and `early`, a pre-release that is newer; `why` says why there is none."""

    release: str = ""
    early: str = ""
    why: str = ""

    @property
    def all(self) -> tuple[str, ...]:
        """The release and the pre-release, as far as there are any."""
        return tuple(filter(None, (self.release, self.early)))


def newest_of(package: str, *, offline: bool = False) -> Newest:
    """The newest release of a package with a wheel for this machine, from the cache or from the index.

    Without a network, or `offline`, nothing is raised: the answer says why it is empty.
    """
    path = cache_folder() / "newest" / f"{package}.json"
    known = _kept(path)
    if known is not None:
        return known
    if offline:
        return Newest(why=NOT_ASKED)
    found = _asked(package)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_fresh(path, json.dumps({"asked": time.time(), **asdict(found)}, sort_keys=True))
    return found


def _asked(package: str) -> Newest:
    try:
        offered = newest_releases(package, nightly=True)
    except UserError as error:
        return Newest(why=str(error))
    release = next((each for each in reversed(offered) if not is_early(each)), "")
    is_newer = not release or order_of(offered[-1]) > order_of(release)
    return Newest(release, offered[-1] if is_newer else "")


def _kept(path: Path) -> Newest | None:
    """The answer in the cache, while it holds; one that cannot be read is none."""
    try:
        facts: Mapping[str, Any] = held_to(read_json(path), _ANSWER, str(path)) if path.exists() else {}
    except UserError:
        return None
    if not facts or not 0 <= time.time() - facts["asked"] < (HOUR if facts["why"] else DAY):
        return None
    return Newest(facts["release"], facts["early"], facts["why"])
