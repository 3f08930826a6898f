"""On a terminal no command is silent for long: it says what it does, and for how long."""

import os
import pty
import re
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.failing import clip_exception

ROOT = Path(__file__).parents[2]
SILENCE = 4.0
"""Seconds: two, and as many for a machine that is busy."""
PATIENT = """
import sys, time
from triage.console import status
from triage.console.output import say
sys.argv = ["crux", "doctor"]
with status.waits_named("doctor"), status.progress() as shown:
    time.sleep(2.2)
    shown.status("trying \x1b[31mtargets")
    time.sleep(0.6)
    say("done")
"""


def on_a_terminal(*command: str, cwd: Path, **environment: str) -> tuple[str, float]:
    """What a command writes to a terminal, and its longest silence."""
    number, terminal = pty.fork()
    if number == 0:
        os.chdir(cwd)
        os.environ.pop("NO_COLOR", None)
        os.environ.update({"TERM": "xterm", **environment})
        os.execv(command[0], command)
    text, silences, last = b"", [0.0], time.monotonic()
    while True:
        try:
            more = os.read(terminal, 1 << 16)
        except OSError:  # it has ended
            break
        silences.append(time.monotonic() - last)
        last, text = time.monotonic(), text + more
    os.waitpid(number, 0)
    os.close(terminal)
    return text.decode(errors="replace"), max(silences)


def frames(text: str) -> list[str]:
    return [re.sub(r"\x1b\[[0-9;]*[A-Za-z]|[\r\n]+$", "", each) for each in text.split("\r\x1b[K")]


def test_the_line_says_what_is_done_and_leaves_nothing_behind(tmp_path):
    text, silence = on_a_terminal(sys.executable, "-c", PATIENT, cwd=ROOT)
    assert silence < SILENCE
    shown = frames(text)
    assert "0:02  doctor" in shown
    assert "0:02  trying  [31mtargets" in shown
    assert shown[-1] == "done"


def test_without_a_terminal_or_with_no_color_nothing_is_drawn():
    text, _ = on_a_terminal(sys.executable, "-c", PATIENT, cwd=ROOT, NO_COLOR="1")
    assert "\x1b" not in text


@pytest.mark.parametrize(
    "words",
    [
        "check case",
        "reduce case -o small",
        "passes small",
        "report small -o told --offline",
        "doctor",
        "hunt --minutes 0.1 -o found",
        "triage",
    ],
)
def test_no_command_is_silent_for_long(words, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "waits"
    folder.mkdir(exist_ok=True)
    if not (folder / "case").exists():
        clip_exception().save(folder / "case")
    crux = str(Path(sys.executable).with_name("crux"))
    text, silence = on_a_terminal(crux, *words.split(), cwd=folder)
    assert silence < SILENCE, text
