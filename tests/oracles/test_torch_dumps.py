"""What torch dumps of a failing graph is told from other scripts, and is a case."""

import importlib.util

import pytest

import tensorcrux

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed", allow_module_level=True)

import torch

from oracles.worker.torch.capture import scripted
from oracles.worker.torch.exported import archive_of, is_dump, is_of_aoti, read_dump, saved_beside

DUMP = """
import os
os.environ['TORCHINDUCTOR_CACHE_DIR'] = '/somewhere/else'

import torch
import torch._inductor.config

class Repro(torch.nn.Module):
    def forward(self, arg0_1):
        mul = torch.ops.aten.mul.Tensor(arg0_1, 2);  arg0_1 = None
        return (mul,)

def load_args(reader):
    buf0 = reader.storage(None, 28)
    reader.tensor(buf0, (7,), is_leaf=True)  # arg0_1
load_args._version = 0
mod = Repro()
if __name__ == '__main__':
    from torch._dynamo.repro.after_aot import run_repro
    with torch.no_grad():
        run_repro(mod, load_args, accuracy=False, command='run', save_dir='/gone/checkpoints')
"""


def test_a_dump_is_told_from_a_script():
    assert is_dump(DUMP)
    assert not is_dump("import torch\nmodel = torch.nn.ReLU()\ninputs = (torch.ones(2),)\n")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:could not load:UserWarning")  # torch says that it makes inputs
def test_a_dump_gives_its_module_and_the_same_inputs_every_time():
    (module, first), (_, second) = (read_dump("dump.py", DUMP) for _ in range(2))
    assert [tuple(each.shape) for each in first] == [(7,)]
    assert all((one == other).all() for one, other in zip(first, second, strict=True))
    assert (module(*first)[0] == 2 * first[0]).all()


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
