"""Weights in other files stay there: models of any size are opened, hashed and stripped in little memory."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from corpus.case import Case
from corpus.load import open_case
from corpus.onnx.check import checker_complaint
from corpus.onnx.model_file import external_files, map_weight, strip_weights
from tests.helpers.models import external, write

GIGABYTES = 3
PROBE = """
import json, sys
from pathlib import Path
from corpus.formats.onnx import parse
from corpus.onnx.check import checker_complaint
from corpus.onnx.check import repair
from corpus.onnx.model_file import strip_weights
from corpus.load import open_case

def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) >> 10

case = open_case(sys.argv[1])
identity = case.case_id
model = parse(case.program)
stripped = strip_weights(repair(model)[0])
complaint = checker_complaint(model)
print(json.dumps({
    "size": sum(file.size for file in case.external), "id": identity, "complaint": complaint,
    "weights": len(stripped.graph.initializer), "inputs": [v.name for v in stripped.graph.input],
    "anonymous": anonymous(),
}))
"""


@pytest.mark.slow
def test_a_model_of_gigabytes_takes_little_memory(tmp_path):
    elements = GIGABYTES << 28
    path = write(tmp_path, external("w.bin", elements))
    with open(tmp_path / "w.bin", "wb") as file:
        file.truncate(elements * 4)
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(path)], capture_output=True, text=True, check=True, cwd=root
    )
    told = json.loads(done.stdout)
    assert told["size"] == GIGABYTES << 30
    assert told["anonymous"] < 300
    assert told["complaint"] is None
    assert (told["weights"], told["inputs"]) == (0, ["x", "w"])
    assert len(told["id"]) == 64


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


def test_a_weight_is_a_view_of_its_file(tmp_path):
    model = read(small(tmp_path))
    files = {file.location: file for file in external_files(model, tmp_path, "m")}
    array = map_weight(model.graph.initializer[0], files)
    assert isinstance(array, np.memmap)
    assert array.dtype == np.float32
    assert array.tolist() == [0, 1, 2, 3, 4, 5]


def read(path: Path) -> onnx.ModelProto:
    return onnx.load(path, load_external_data=False)


def test_packed_weights_are_unpacked(tmp_path):
    (tmp_path / "w.bin").write_bytes(bytes([0x21, 0x03]))
    model = external("w.bin", 3, "0", "2")
    model.graph.initializer[0].data_type = TensorProto.UINT4
    files = {file.location: file for file in external_files(model, tmp_path, "m")}
    assert map_weight(model.graph.initializer[0], files).astype(int).tolist() == [1, 2, 3]


def test_a_stripped_model_needs_no_files(tmp_path):
    case = open_case(small(tmp_path))
    stripped = strip_weights(read(tmp_path / "model.onnx"))
    assert checker_complaint(stripped) is None
    assert external_files(stripped, tmp_path / "nowhere", "m") == ()
    case.save(tmp_path / "saved")
    assert Case.load(tmp_path / "saved").external[0].digest == case.external[0].digest
