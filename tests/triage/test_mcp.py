"""The server for assistants, driven by the client of the official SDK."""

import json
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")

import anyio
from mcp import Client, StdioServerParameters

from tests.helpers.failing import clip_exception, healthy, verdict
from triage.bugs.failures import record_failure
from triage.store.database import Store

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What the server may see, beside a case that it may not."""
    clip_exception().save(tmp_path / "in" / "clip")
    healthy().save(tmp_path / "in" / "fine")
    healthy().save(tmp_path / "out")
    (tmp_path / "in" / "link").symlink_to(tmp_path / "out")
    (tmp_path / "in" / "code.py").write_text("open('ran', 'w')\n")
    with Store(tmp_path / "in" / "crux.db") as store:
        record_failure(store, clip_exception(), verdict("one"))
        record_failure(store, healthy(), verdict("quite another"))
    return tmp_path / "in"


def with_client(folder: Path, work: Callable[[Client], Awaitable[None]]) -> None:
    command = ["-m", "triage.cli", "mcp", str(folder)]
    server = StdioServerParameters(command=sys.executable, args=command, cwd=str(Path(__file__).parents[2]))

    async def talk() -> None:
        async with Client(server) as client:
            await work(client)

    anyio.run(talk)


async def call(client: Client, name: str, **words: Any) -> tuple[bool, Any]:
    """Whether a call failed, and its document or complaint."""
    result: Any = await client.call_tool(name, words)
    text = result.content[0].text
    return bool(result.is_error), text if result.is_error else json.loads(text)


def test_an_assistant_gets_from_a_model_to_a_report(folder):
    async def work(client: Client) -> None:
        tools = {each.name for each in (await client.list_tools()).tools}
        assert tools == {"check", "reduce", "report", "triage", "explain"}
        assert (await call(client, "check", case="fine"))[1]["bug"] is False
        _, found = await call(client, "check", case="clip")
        if not found["bug"]:
            pytest.skip("the installed onnxruntime does not show the bug")
        failed, small = await call(client, "reduce", case="clip", out="small")
        assert not failed
        assert (small["minimal"], small["folder"]) == (True, str(folder / "small"))
        failed, bundle = await call(client, "report", case="small", out="reports")
        assert not failed
        assert (Path(bundle["folder"]) / "issue.md").is_file()
        _, listed = await call(client, "triage")
        assert len(listed["bugs"]) == 2
        _, why = await call(client, "explain", first="C0001", second="C0002")
        assert why["together"] is False

    with_client(folder, work)


def test_nothing_leaves_the_folders_and_nothing_runs_code(folder):
    refused = [
        ("check", {"case": "../out"}, "outside"),
        ("check", {"case": "link"}, "outside"),
        ("check", {"case": "/etc/hostname"}, "outside"),
        ("check", {"case": "fine", "database": "../crux.db"}, "outside"),
        ("reduce", {"case": "clip", "out": "/tmp/elsewhere"}, "outside"),
        ("check", {"case": "fine", "target": "ort@python=/bin/sh"}, "without --trust"),
        ("check", {"case": "code.py"}, "trust"),
        ("check", {"case": "--trust"}, "--trust"),
        ("explain", {"first": "--help", "second": "C0001"}, "--help"),
    ]

    async def work(client: Client) -> None:
        for name, words, said in refused:
            failed, text = await call(client, name, **words)
            assert failed, (name, words, text)
            assert said in text
        assert not (folder / "ran").exists()

    with_client(folder, work)


def test_a_long_call_tells_its_progress_and_can_be_cancelled(folder):
    told: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    async def work(client: Client) -> None:
        with anyio.move_on_after(0.2):
            await client.call_tool("check", {"case": "fine"}, progress_callback=hear)
        await client.call_tool("report", {"case": "clip", "out": "r"}, progress_callback=hear)
        assert (await call(client, "check", case="fine"))[1]["outcome"] == "pass"

    with_client(folder, work)
    assert told
