"""Whatever is named as a case opens or is refused with one clear line, and leaves nothing behind."""

import hashlib
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from corpus.errors import UserError
from corpus.load import open_case
from corpus.onnx import client as onnx_client
from corpus.onnx.model_file import external_files, map_weight
from tests.helpers.commands import completed, waited_for
from tests.helpers.counting import bytes_read_by
from tests.helpers.endless_models import doubling_functions
from tests.helpers.models import external, relu, varint, write


def refusal(path: Path, **options: object) -> str:
    """The one line with which a case is refused, in time and without a trace on disk."""
    root = path if path.is_dir() else path.parent
    before = sorted(root.rglob("*"))
    with pytest.raises(UserError) as refused:
        open_case(path, **options)
    assert sorted(root.rglob("*")) == before
    line = str(refused.value)
    assert line
    assert "\n" not in line
    assert str(path) in line
    return line


@pytest.mark.parametrize("size", [2_000_000_000, 1 << 31, 5 << 31])
def test_gigabytes_of_zeros_are_refused_unread(size, tmp_path):
    path = tmp_path / "zeros.onnx"
    with open(path, "wb") as file:
        file.truncate(size)
    said: list[str] = []
    assert bytes_read_by(lambda: said.append(refusal(path))) < 1 << 20
    assert "not an ONNX model" in said[0]


def test_a_message_over_two_gibibytes_is_refused_unread(tmp_path):
    path = tmp_path / "huge.onnx"
    with open(path, "wb") as file:
        file.write(b"\x08\x08\x3a" + varint(3 << 30))
        file.truncate(file.tell() + (3 << 30))
    assert "2 GiB" in refusal(path)


EXTENTS = [
    ("0", "65"),
    ("60", "16"),
    ("-4", "16"),
    ("0", "-16"),
    ("x", "16"),
    ("9" * 5000, "16"),
    (str(1 << 63), "16"),
    ("0", str(1 << 62)),
]


@pytest.mark.parametrize(("offset", "length"), EXTENTS)
def test_weights_beyond_their_file_are_refused(offset, length, tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes(64))
    assert "'w'" in refusal(write(tmp_path, external("w.bin", 4, offset, length)))


def test_weights_inside_the_folder_open_by_a_link_too(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(bytes(64))
    (tmp_path / "link.bin").symlink_to("data/w.bin")
    for location in ("data/w.bin", "./data/w.bin", "link.bin"):
        (file,) = open_case(write(tmp_path, external(location, 4, "16"))).external
        assert file.path == (tmp_path / "data" / "w.bin").resolve()
        assert file.size == 64


def test_the_memory_limit_is_the_callers(tmp_path):
    path = write(tmp_path, relu([1024, 1024]))
    assert open_case(path, memory_bytes=1 << 23).inputs["x"] is not None
    assert "--memory" in refusal(path, memory_bytes=1 << 20)


MISFITS = {
    "a missing name": ({"z": np.zeros((2, 3), np.float32)}, "no input 'x'"),
    "a wrong dtype": ({"x": np.zeros((2, 3), np.float64)}, "float64[2,3]"),
    "a wrong rank": ({"x": np.zeros((2, 3, 1), np.float32)}, "float32[2,3,1]"),
    "a sequence": ({"x#0": np.zeros((2, 3), np.float32)}, "a sequence of 1"),
    "an absent one": ({"x#absent": np.zeros(0, np.uint8)}, "an absent optional"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_inputs_that_do_not_fit_are_refused(name, tmp_path):
    arrays, word = MISFITS[name]
    path = write(tmp_path, relu(), "m.onnx")
    npz = tmp_path / "in.npz"
    with pytest.raises(UserError, match=r"in\.npz: no such inputs"):
        open_case(path, inputs=npz)
    np.savez(npz, **arrays)
    with pytest.raises(UserError) as refused:
        open_case(path, inputs=npz)
    line = str(refused.value)
    assert "\n" not in line
    for told in (str(npz), "'x'", "float32[2,3]", word):
        assert told in line


def test_functions_that_stand_for_too_many_nodes_are_refused(tmp_path):
    assert f"{1 << 30} nodes" in refusal(write(tmp_path, doubling_functions(30)))
    assert "deep" in refusal(write(tmp_path, doubling_functions(2000, calls=1)))
    assert open_case(write(tmp_path, doubling_functions(6))).inputs["x"] is not None


def test_an_inference_that_takes_too_long_is_ended_with_its_process(monkeypatch):
    client = onnx_client._Client()
    server = client._start()[0].pid
    assert client.ask(b"c", doubling_functions(1).SerializeToString())[
        0
    ]  # the fork that serves is there by now
    monkeypatch.setattr(onnx_client, "_SECONDS", 0.5)
    serving = set(running_in_group(server)) - {server}
    with pytest.raises(onnx_client.OnnxDied):
        client.ask(b"i", doubling_functions(30).SerializeToString())
    assert not serving & set(running_in_group(server))
    client.close()
    assert waited_for(lambda: not running_in_group(server))


def test_a_process_that_is_killed_while_it_waits_puts_no_answer_in_anothers_place():
    client = onnx_client._Client()
    server = client._start()[0].pid
    good, bad = doubling_functions(1), doubling_functions(1)
    bad.graph.node[0].op_type, bad.graph.node[0].domain = "NoSuchOperator", ""
    for _ in range(3):
        assert client.ask(b"c", good.SerializeToString()) == (True, b"")
        for serving in set(running_in_group(server)) - {server}:
            os.kill(serving, signal.SIGKILL)
        told = [client.ask(b"c", each.SerializeToString())[0] for each in (bad, good, bad)]
        assert told == [False, True, False]
    client.close()


def running_in_group(group: int) -> list[int]:
    """The processes of a group that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group and fields[0] not in "ZX":
                found.append(int(stat.parent.name))
    return found


# Weights in other files stay there: models of any size are opened, hashed and stripped in little memory

GIGABYTES = 3
PROBE = """
import sys
from pathlib import Path
from corpus.formats.onnx import parse
from corpus.onnx.check import checker_complaint, repair
from corpus.load import open_case

case = open_case(sys.argv[1])
model = parse(case.program)
complaint = checker_complaint(repair(model)[0])
lines = Path("/proc/self/status").read_text().splitlines()
anonymous = next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) >> 10
assert complaint is None and anonymous < 300 and len(case.case_id) == 64
"""


@pytest.mark.slow
def test_a_model_of_gigabytes_takes_little_memory(tmp_path):
    elements = GIGABYTES << 28
    path = write(tmp_path, external("w.bin", elements))
    with open(tmp_path / "w.bin", "wb") as file:
        file.truncate(elements * 4)
    completed([sys.executable, "-c", PROBE, str(path)], check=True, cwd=Path(__file__).parents[2])


def small(tmp_path: Path) -> Path:
    (tmp_path / "w.bin").write_bytes(bytes(4) + np.arange(6, dtype=np.float32).tobytes())
    return write(tmp_path, external("w.bin", 6, "4"))


def test_a_file_of_weights_is_part_of_the_identity(tmp_path):
    path = small(tmp_path)
    first = open_case(path)
    assert first.external[0].digest == hashlib.sha256((tmp_path / "w.bin").read_bytes()).hexdigest()
    hashes = {first.case_id, first.canonical_hash}
    (tmp_path / "w.bin").write_bytes(bytes(28))
    second = open_case(path)
    assert first.program == second.program
    assert hashes.isdisjoint({second.case_id, second.canonical_hash})


def test_packed_weights_are_unpacked(tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes([0x21, 0x03]))
    model = external("w.bin", 3, "0", "2")
    model.graph.initializer[0].data_type = TensorProto.UINT4
    files = {file.location: file for file in external_files(model, tmp_path, "m")}
    assert map_weight(model.graph.initializer[0], files).astype(int).tolist() == [1, 2, 3]
