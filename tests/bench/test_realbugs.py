"""Each record of a real bug is a valid model, by itself and within its host, and names a thread."""

import sys

import onnx
import pytest

from tests.bench.realbugs.bugs import BUGS, MODELS
from tests.bench.realbugs.host import within_host
from tests.bench.realbugs.page import write_page
from tests.bench.realbugs.score import PEERS, cells, table
from tests.bench.realbugs.torch_bugs import TORCH
from tests.helpers.commands import completed, needs


@pytest.mark.parametrize("bug", MODELS, ids=lambda bug: bug.id)
def test_a_record_builds_valid_models_small_and_in_its_host(bug):
    model = bug.build()
    onnx.checker.check_model(model, full_check=True)
    assert {each.name for each in model.graph.input} == set(bug.inputs())
    if not bug.is_hosted:
        return
    hosted, inputs = within_host(bug)
    onnx.checker.check_model(hosted, full_check=True)
    assert len(hosted.graph.node) >= 200
    assert {each.name for each in hosted.graph.input} == set(inputs)


def test_records_differ_and_name_their_thread_and_what_was_wrong():
    assert len({bug.id for bug in BUGS}) == len(BUGS)
    for bug in BUGS:
        assert bug.address.rsplit("/", 1)[1].isdigit()
        assert all((bug.title, bug.culprits, bug.outcome))
        assert bug.last_good != bug.release != bug.first_fixed


@needs("torch")
def test_a_torch_record_runs_in_eager_mode_within_a_host_of_two_hundred_nodes(tmp_path):
    """All in one process, which loads torch once; one of them asks for what eager refuses."""
    hosted = [bug.write_script(tmp_path / bug.id) for bug in TORCH]
    done = completed([sys.executable, "-c", RUNS, *hosted], check=True)
    counts = dict(line.split() for line in done.stdout.splitlines())
    refused = {path.parent.name for path in hosted} - set(counts)
    assert refused == {"torch-target-out-of-range"}
    assert all(int(count) >= 200 for count in counts.values())


RUNS = """
import os, sys, torch
from torch.utils._python_dispatch import TorchDispatchMode

class Counted(TorchDispatchMode):
    calls = 0
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        Counted.calls += 1
        return function(*args, **(kwargs or {}))

for path in sys.argv[1:]:
    space = {"__name__": "__main__"}
    exec(open(path).read(), space)
    Counted.calls = 0
    try:
        with Counted(), torch.no_grad():
            space["model"](*space["inputs"])
    except RuntimeError as error:
        assert "between 0 and 1" in str(error)
    else:
        print(os.path.basename(os.path.dirname(path)), Counted.calls)
"""


def test_the_score_is_one_table_for_the_terminal_and_the_page_with_what_other_tools_left(tmp_path):
    bugs = BUGS[:2]
    rows = [{"id": bug.id, "check.seen": True, "reduce.is_least": False} for bug in bugs]
    (tmp_path / bugs[0].id).mkdir()
    (tmp_path / bugs[0].id / PEERS).write_text('{"extractor": [3, 9, 1.5, ""]}')
    lines = cells(rows, tmp_path)
    write_page(tmp_path, bugs, rows, lines)
    page = (tmp_path / "score.html").read_text()
    assert "| all | 2 of 2 | 0 of 2 |" in table(lines)
    assert all(f"<td>{cell}</td>" in page for line in lines[1:] for cell in line)
    assert all(bug.address in page for bug in bugs)
