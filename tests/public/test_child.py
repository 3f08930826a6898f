"""The library's process: one for many calls, gone with its parent, whatever either is at."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading

import pytest

import tensorcrux
from tensorcrux import child
from tensorcrux.child import CruxFailed
from tests.helpers.commands import is_gone, waited_for
from tests.helpers.failing import healthy

AT_WORK = """
import sys, tensorcrux
from tensorcrux import child
next(tensorcrux.generate(1, ops=1))
print(child._child._process.pid, flush=True)
tensorcrux.reduce(sys.argv[1], command="sleep 60; true")
"""


def child_pid() -> int:
    return child._child._process.pid


def test_calls_share_a_process_until_a_variable_changes(monkeypatch):
    list(tensorcrux.generate(2, ops=1))
    first = child_pid()
    list(tensorcrux.generate(1, ops=1))
    assert child_pid() == first
    monkeypatch.setenv("CRUX_ANYTHING", "1")
    list(tensorcrux.generate(1, ops=1))
    assert child_pid() != first
    assert is_gone(first)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_the_process_ends_with_its_parent_amid_a_call(number, tmp_path):
    healthy().save(tmp_path / "case")
    command = [sys.executable, "-c", AT_WORK, str(tmp_path / "case")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        pid = int(parent.stdout.readline())
        parent.send_signal(number)
    assert waited_for(lambda: is_gone(pid))


def test_a_process_that_dies_is_said_and_the_next_call_has_another():
    list(tensorcrux.generate(1, ops=1))
    os.kill(child_pid(), signal.SIGKILL)
    with pytest.raises(CruxFailed, match="ended with -9"):
        list(tensorcrux.generate(1, ops=1))
    assert len(list(tensorcrux.generate(1, ops=1))) == 1


def test_a_failure_of_its_own_has_its_traceback():
    with pytest.raises(CruxFailed, match="TypeError"):
        child.ask("generate", out=3)


def _case_id(number: int) -> str:
    return next(tensorcrux.generate(1, ops=2, seed=number)).case_id


def test_threads_and_forks_do_not_mix_up_answers():
    wanted = [_case_id(number) for number in range(6)]
    seen: dict[int, str] = {}
    threads = [
        threading.Thread(target=lambda number=number: seen.update({number: _case_id(number)}))
        for number in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [seen[number] for number in range(6)] == wanted
    before = child_pid()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.map(_case_id, range(2)) == wanted[:2]
    assert _case_id(3) == wanted[3]
    assert child_pid() == before
