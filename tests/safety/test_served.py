"""The page of a hunt is served to browsers, which come and go as they like."""

import socket
import struct
import threading
from urllib.parse import urlsplit
from urllib.request import urlopen

from triage.pages.campaign import serving
from triage.store.database import Store


def test_a_browser_that_leaves_puts_nothing_on_the_terminal(tmp_path, capfd):
    Store(tmp_path / "crux.db").close()
    with serving(tmp_path / "crux.db", 0) as address:
        for said in (b"", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\xff" * 70_000):
            with socket.create_connection(("127.0.0.1", urlsplit(address).port or 0)) as asked:
                asked.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                asked.sendall(said)
        urlopen(address).close()  # now the others are being answered
        for thread in threading.enumerate():
            if "process_request" in thread.name:
                thread.join(10)
    assert capfd.readouterr().err == ""
