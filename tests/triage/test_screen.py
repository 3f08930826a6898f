"""What a hunt shows on a terminal of eighty columns, and in a line."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from triage.console.display import picture
from triage.console.status import HuntStatus, LatestFinding

TITLE = "another result on every run: v5: 185 of 189 elements differ, most at [1, 8, 1]"


def situation(what: str) -> HuntStatus:
    return HuntStatus(
        target="ort",
        doing="reducing F00025: keep the nodes where values part: 4 nodes, 1,083 bytes, 13 checks",
        elapsed=160,
        left=620,
        tests=12_493,
        valid=11_400,
        rate=79,
        coverage=79_026,
        blocks=0,
        failing=87,
        waiting=3,
        bugs={"new": 18, "known": 8},
        cpu=120,
        memory=400 << 20,
        last=LatestFinding("F00098", TITLE, 2.0, what),
        explained=61,
        faces=4,
    )


def shown(now: HuntStatus, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(picture(now, width))
    return console.file.getvalue()


@pytest.mark.parametrize(
    "what", ["new", "looks like C0003", "another face of C0003", "explained by C0003", "C0003, new"]
)
def test_each_failure_is_said_what_it_is_within_eighty_columns(what):
    lines = shown(situation(what), 80).splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert f"F00098 {what}: another result" in lines[-1]
    assert f"last F00098, {what}, 0:02 ago" in situation(what).line()


def test_how_many_are_explained_and_faces_is_counted():
    text = " ".join(shown(situation("new"), 80).split())
    assert "explained 61" in text
    assert "faces 4" in text
