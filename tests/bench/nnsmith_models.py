"""Models of NNSmith 0.1.0, for an interpreter that has it; run as a program of its own, never imported.

    python nnsmith_models.py FOLDER NODES MODELS SECONDS [SEED]

Writes `N.onnx` and `N.npz` to the folder and prints one line of JSON: how many, the CPU seconds of making
them, and those at which each was there. Two stand-ins let the released package run on today's torch: the
TorchScript exporter, and sampling from any collection. Its own probing of what onnxruntime supports fails
there and is left off.
"""

import json
import logging
import random
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np
import onnx

warnings.simplefilter("ignore")
logging.disable(logging.ERROR)

import torch  # noqa: E402

torch.set_num_threads(1)
_export, _sample = torch.onnx.export, random.sample
torch.onnx.export = lambda *given, **options: _export(*given, **{**options, "dynamo": False})
random.sample = lambda population, k, **options: _sample(list(population), k, **options)

from nnsmith.abstract.extension import activate_ext  # noqa: E402
from nnsmith.graph_gen import model_gen  # noqa: E402
from nnsmith.materialize import Model  # noqa: E402
from nnsmith.narrow_spec import auto_opset  # noqa: E402


def main(folder: Path, nodes: int, models: int, seconds: float, seed: int = 0) -> None:
    kind = Model.init("onnx", backend_target="cpu")
    kind.add_seed_setter()
    operators = auto_opset(kind, None, vulops=False)
    activate_ext(opset=operators, factory=None)
    with suppress(Exception):  # the first model pays for what Python and torch load late: it is not counted
        first = model_gen(
            opset=operators, method="symbolic-cinit", seed=seed, max_nodes=nodes, timeout_ms=10000
        )
        kind.from_gir(first.make_concrete()).native_model.SerializeToString()
    made, spent, moments = 0, 0.0, list[float]()
    while made < models and spent < seconds:
        seed, start = seed + 1, time.process_time()
        try:
            graph = model_gen(
                opset=operators, method="symbolic-cinit", seed=seed, max_nodes=nodes, timeout_ms=10000
            )
            model = kind.from_gir(graph.make_concrete())
            model.refine_weights()
            found = model.sat_inputs
            values = model.torch_model.get_random_inps() if found is None else found
            inputs = {name: value.cpu().detach().numpy() for name, value in values.items()}
            native = model.native_model
        except Exception as error:  # what the released package cannot do today is not counted for it
            print(f"seed {seed}: {type(error).__name__}", file=sys.stderr)
            continue
        finally:
            spent += time.process_time() - start
        onnx.save(native, folder / f"{made}.onnx")
        np.savez(folder / f"{made}.npz", **inputs)
        made += 1
        moments.append(spent)
    print(json.dumps({"models": made, "seconds": spent, "moments": moments}))


main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), *map(int, sys.argv[5:]))
