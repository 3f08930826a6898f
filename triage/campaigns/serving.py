"""The page of a hunt, served to this machine alone while the hunt runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from corpus.errors import UserError
from triage.bugs.known import KnownIssue, load_known
from triage.pages.campaign import campaign_page
from triage.store.database import Store

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
