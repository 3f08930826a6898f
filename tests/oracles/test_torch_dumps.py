"""What torch dumps of a failing graph is told from other scripts, and is a case."""

import importlib.util
from pathlib import Path

import pytest

import tensorcrux

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch

from oracles.worker.torch.capture import scripted
from oracles.worker.torch.exported import archive_of, is_dump, is_of_aoti, saved_beside

DUMP = (Path(__file__).parent / "failures" / "torch_dump.txt").read_text()


def test_a_dump_is_told_from_a_script():
    assert is_dump(DUMP)
    assert not is_dump("import torch\nmodel = torch.nn.ReLU()\ninputs = (torch.ones(2),)\n")


def test_saved_inputs_are_found_beside_the_dump(tmp_path):
    assert saved_beside(str(tmp_path / "repro.py"), DUMP) is None
    (tmp_path / "checkpoints").mkdir()
    assert saved_beside(str(tmp_path / "repro.py"), DUMP) == str(tmp_path / "checkpoints")


@pytest.mark.slow
def test_a_dump_is_judged_as_a_case(tmp_path):
    (tmp_path / "fx_graph_runnable.py").write_text(DUMP)
    verdict = tensorcrux.check(tmp_path / "fx_graph_runnable.py", target="inductor", trust=True)
    assert verdict.outcome == "pass"


def test_a_dump_of_aotinductor_is_its_exported_program(tmp_path):
    text = f"""exported_program = torch.export.load('{tmp_path}/gone/checkpoints/exported_program.pt2')
config_patches=None
if __name__ == '__main__':
    from torch._dynamo.repro.aoti import run_repro
    with torch.no_grad():
        run_repro(exported_program, config_patches=config_patches, command='minify')
"""
    name = str(tmp_path / "minifier_launcher.py")
    assert is_of_aoti(text)
    assert not is_of_aoti(DUMP)
    with pytest.raises(FileNotFoundError, match="is not there"):
        archive_of(name, text)
    (tmp_path / "checkpoints").mkdir()
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(3),))
    torch.export.save(program, tmp_path / "checkpoints" / "exported_program.pt2")
    found = scripted(name, text)
    assert [tuple(each.shape) for each in found.args] == [(3,)]
