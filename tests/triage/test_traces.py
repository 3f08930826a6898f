"""Raw traces are clustered by what they say, and by nothing else."""

from __future__ import annotations

import json
import random

import pytest

from corpus.errors import UserError
from tests.triage.test_cli import crux
from triage.clustering.traces import cluster_traces, read_traces

LIBRARY = "/opt/venv/lib/python3.11/site-packages/onnxruntime/capi/onnxruntime_inference_collection.py"


def exception(words, line=220, script="a.py"):
    return f"""Traceback (most recent call last):
  File "/home/me/{script}", line {line}, in <module>
    session.run(None, feeds)
  File "{LIBRARY}", line {line}, in run
    return self._sess.run(output_names, input_feed, run_options)
onnxruntime.capi.onnxruntime_pybind11_state.Fail: [ONNXRuntimeError] : 1 : FAIL : {words}
"""


def crash(line, thread="0x00007f8a38e26b80"):
    return f"""Fatal Python error: Floating point exception

Current thread {thread} (most recent call first):
  File "{LIBRARY}", line 220 in run
  File "/home/me/cases.py", line {line} in <module>
[exit 136]
"""


def concat(name, axis, size):
    where = f"Non-zero status code returned while running Concat node. Name:'{name}' Status Message: "
    what = f"Non concat axis dimensions must match: Axis {axis} has mismatched dimensions of {size} and 3"
    return exception(f"{where}/src/core/concat.cc:77 PrepareForCompute {what}", line=size)


TEXTS = {
    "one": concat("/a/Concat_1", 1, 4),
    "two": concat("n7", 2, 90),
    "three": exception(
        "Non-zero status code returned while running Gather node. Name:'g' Status Message: bad"
    ),
    "four": exception("Non-zero status code returned while running Tile node. Name:'g' Status Message: bad"),
    "five": crash(7),
    "six": crash(7, "0x00007ff7d661fb80"),
    "seven": crash(8),
    "eight": "[exit 124]",
    "nine": "free(): invalid pointer\nAborted (core dumped)\n[exit 134]",
    "ten": "terminate called\n  what():  vector::_M_range_check: __n (which is 4)\n[exit 134]",
    "eleven": "terminate called\n  what():  vector::_M_range_check: __n (which is 9)\n[exit 134]",
}


def together(found):
    groups = {}
    for name, cluster in found.items():
        groups.setdefault(cluster, set()).add(name)
    return sorted(map(sorted, groups.values()))


def test_names_numbers_and_addresses_do_not_tell_bugs_apart_and_operators_do():
    found = together(cluster_traces(TEXTS))
    apart = [["eight"], ["four"], ["nine"], ["seven"], ["three"]]
    assert found == sorted([["eleven", "ten"], ["five", "six"], ["one", "two"], *apart])


def test_neither_order_nor_file_names_change_a_cluster():
    found = cluster_traces(TEXTS)
    names = list(TEXTS)
    random.Random(0).shuffle(names)
    assert cluster_traces({name: TEXTS[name] for name in names}) == found
    renamed = cluster_traces({f"x{name}": TEXTS[name] for name in names})
    assert renamed == {f"x{name}": cluster for name, cluster in found.items()}


def test_the_command_gives_one_document_of_files_and_clusters(tmp_path):
    for name, text in TEXTS.items():
        (tmp_path / f"{name}.txt").write_text(text)
    (tmp_path / "labels.json").write_text("{}")
    done = crux(tmp_path, "triage", "traces", ".", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {f"{name}.txt": each for name, each in cluster_traces(TEXTS).items()}


def test_bytes_that_are_no_text_are_read_nevertheless(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xff\xfe\x00 Segmentation fault\n[exit 139]")
    assert list(cluster_traces(read_traces(tmp_path))) == ["a.txt"]


def test_a_folder_without_traces_is_refused(tmp_path):
    with pytest.raises(UserError, match="no trace texts"):
        read_traces(tmp_path)
