"""`campaign.html`: how a database's campaigns go, drawn from what the database holds."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from corpus.errors import UserError
from corpus.outputs import put
from triage.bugs.known import KnownIssue, load_known
from triage.bugs.overview import overview_with_states
from triage.store.campaigns import coverage_documents, progress_document
from triage.store.clusters import clusters
from triage.store.database import Store
from triage.store.names import find_cluster
from triage.views.charts import Line, Point, Series, series
from triage.views.rendering import hash_of, render

NAME = "campaign.html"
SECONDS = 5
"""Between two looks of a page that is live."""
LONGEST_GAP = 120.0
"""Seconds between two points of one run; more is a machine that was suspended."""
MOST_PASSES, MOST_FILES, MOST_ARMS, MOST_BUGS = 15, 15, 12, 12
ENOUGH = 30.0
"""CPU seconds from which on a yield by the hour means something."""
SCRIPT = f"""const look = async () => {{
  if (!document.hidden) {{
    try {{
      const text = await (await fetch("/", {{cache: "no-store"}})).text();
      const fresh = new DOMParser().parseFromString(text, "text/html").querySelector("main");
      if (fresh) document.querySelector("main").replaceWith(fresh);
      document.body.classList.remove("gone");
    }} catch {{
      document.body.classList.add("gone");
    }}
  }}
  setTimeout(look, {1000 * SECONDS});
}};
setTimeout(look, {1000 * SECONDS});"""
"""Looks for news; where nobody answers any more, the page says so and keeps what it has."""


def campaign_page(store: Store, issues: tuple[KnownIssue, ...] = (), *, is_live: bool = False) -> str:
    """The page as text; a live one looks for news by itself."""
    found = progress_document(store)
    timed = list(_timed(found["samples"]))
    last = _last_of_runs(found["samples"])
    choices, ids = found["choices"], [each.id for each in clusters(store)]
    whole = sum(each["cpu_seconds"] for each in choices) or 1.0
    return render(
        "campaign.html.j2",
        name=store.path.name,
        is_live=is_live,
        script=SCRIPT if is_live else "",
        script_hash=hash_of(SCRIPT),
        now=last[-1] if last else None,
        running=[each for each in found["runs"] if each["status"] == "running"][-1:],
        totals={
            "tests": sum(each["tests"] for each in found["runs"]),
            "valid": sum(each["valid"] for each in found["runs"]),
            "failures": sum(each["failures"] for each in found["runs"]),
            "cpu": sum(each["cpu"] for each in last),
            "sampled": sum(each["tests"] for each in last),
        },
        charts=_charts(timed),
        arms=found["arms"],
        most_arms=MOST_ARMS,
        enough=ENOUGH,
        choices=[{**each, "share": each["cpu_seconds"] / whole} for each in choices],
        decisions=found["decisions"],
        runs=found["runs"][-10:][::-1],
        bugs=_newest_first(store, issues, ids),
        older=len(ids) - min(len(ids), MOST_BUGS),
        coverage=[_covered(each) for each in coverage_documents(store)],
    )


def write_campaign_page(store: Store, folder: Path, issues: tuple[KnownIssue, ...] = ()) -> Path | None:
    """Write the page beside that of the bugs, whole or not at all; None where no campaign was seen."""
    if not store.count("samples"):
        return None
    put(folder / NAME, campaign_page(store, issues))
    return folder / NAME


def _last_of_runs(samples: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The last point of each run, in the order in which they came."""
    last = {each["run"]: each for each in samples}
    return sorted(last.values(), key=lambda each: int(each["id"]))


def _timed(samples: Sequence[Mapping[str, Any]]) -> Iterator[tuple[float, Mapping[str, Any], float]]:
    """Yield each point with the seconds of hunting before it, and tests a second since the point before."""
    elapsed = 0.0
    for _, group in groupby(samples, key=lambda each: each["run"]):
        points = list(group)
        yield elapsed, points[0], 0.0
        for one, other in pairwise(points):
            gap = min(_seconds(one["at"], other["at"]), LONGEST_GAP)
            elapsed += gap
            yield elapsed, other, (other["tests"] - one["tests"]) / gap if gap > 0 else 0.0


def _seconds(one: str, other: str) -> float:
    return (datetime.fromisoformat(other) - datetime.fromisoformat(one)).total_seconds()


def growth(store: Store) -> list[tuple[str, Series]]:
    """The charts of coverage and of bugs over the time of hunting; none where no campaign was seen."""
    return _charts(list(_timed(progress_document(store)["samples"])))[:2]


def _charts(timed: Sequence[tuple[float, Mapping[str, Any], float]]) -> list[tuple[str, Series]]:
    """Coverage, bugs, throughput, what waits, memory."""

    def line(name: str, key: str, unit: float = 1.0) -> Line:
        points: list[Point] = [(at, each[key] / unit) for at, each, _ in timed]
        return Line(name, points)

    rate = Line("tests a second", [(at, rate) for at, _, rate in timed[1:]])
    blocks = [line("blocks", "blocks")] if any(each["blocks"] for _, each, _ in timed) else []
    wanted = [
        ("Pieces of coverage", [line("pieces", "coverage")]),
        ("Bugs of the database", [line("new", "new"), line("known", "known")]),
        ("Tests a second, reducing included", [rate]),
        ("Failures that wait for reduction", [line("waiting", "waiting")]),
        ("Memory of crux itself, MB", [line("MB", "memory", 2**20)]),
        ("Blocks of the target's own code", blocks),
    ]
    drawn = [(title, series(lines)) for title, lines in wanted]
    return [(title, chart) for title, chart in drawn if chart is not None]


def _covered(document: Mapping[str, Any]) -> dict[str, Any]:
    """The passes and the source files with most blocks; files that nothing names are left out."""
    files = [each for each in document["files"] if each["name"]]
    return {**document, "passes": document["passes"][:MOST_PASSES], "files": files[:MOST_FILES]}


def _newest_first(store: Store, issues: tuple[KnownIssue, ...], ids: Sequence[int]) -> list[dict[str, Any]]:
    """The last bugs with their states; only those are looked at, since a live page asks again and again."""
    last = sorted(ids)[-MOST_BUGS:]
    found = overview_with_states(store, issues, last) if last else []
    return sorted(found, key=lambda each: find_cluster(store, str(each["id"])) or 0, reverse=True)


LOOPBACK = "127.0.0.1"
_NAMES = frozenset({LOOPBACK, "localhost"})
"""What a browser may call this machine: another name would be a site that points its own at us."""


@contextmanager
def serving(database: Path, port: int, known: str = "") -> Iterator[str]:
    """Serve the page of a database; its address. Raises `UserError` where the port is taken.

    `known` is a file of more known issues.
    """
    try:
        server = ThreadingHTTPServer(
            (LOOPBACK, port), partial(_Handler, database, load_known(database, known))
        )
    except OSError as error:
        raise UserError(
            f"--port {port}: cannot be listened on ({error.strerror}); 0 is any free one"
        ) from None
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True)
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    """Answers with the page as the database is now, and with nothing else."""

    def __init__(self, database: Path, issues: tuple[KnownIssue, ...], *rest: object) -> None:
        self._database, self._issues = database, issues
        super().__init__(*rest)  # type: ignore[arg-type]

    def handle(self) -> None:
        """Whoever asked may leave at any time."""
        with suppress(ConnectionError):
            super().handle()

    def do_GET(self) -> None:
        """The page at `/`; an error for any other path, and for a request by another name."""
        if self.headers.get("Host", "").partition(":")[0] not in _NAMES:
            self.send_error(403)
            return
        if self.path != "/":
            self.send_error(404)
            return
        with Store(self._database) as store:
            page = campaign_page(store, self._issues, is_live=True).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(page)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *words: object) -> None:
        """Nothing: the terminal belongs to the hunt."""
