"""How many of TVM's passes in sequences change a module at all: alone after what each needs, and as drawn."""

import base64
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from generators.mixture import Plan, make_cases
from generators.mutations.modes import Mode
from oracles.worker.tvm.passes import PASSES, repaired

pytestmark = pytest.mark.bench

ROOT = Path(__file__).parents[2]
PROGRAMS = 200
SEED = 60_000_000

CHANGES = """
import base64, collections, json, os, sys
import tvm, tvm_ffi
from tvm.relax.frontend.onnx import from_onnx
import onnx
from oracles.worker.tvm.passes import PASSES

changed, ended = collections.Counter(), collections.Counter()

def after(module, names, known):
    for place, name in enumerate(names):
        prefix = names[: place + 1]
        if prefix not in known:
            hashed = tvm_ffi.structural_hash(module)
            try:
                module = PASSES[name].build()(module)
            except Exception as error:
                known["ended " + name] = str(error).strip().splitlines()[-1][:100]
                return
            if tvm_ffi.structural_hash(module) != hashed:
                known[name] = True
            known[prefix] = module
        module = known[prefix]

def changes(item, log):
    model = onnx.load_model_from_string(base64.b64decode(item["program"]))
    module, known = from_onnx(model, keep_params_in_input=False), {}
    log.write("imported\\n")
    with tvm.target.Target("llvm"):
        for names in map(tuple, item["sequences"]):
            after(module, names, known)
    words = [key for key in known if isinstance(key, str)]
    log.writelines((key if " " in key else "changed " + key) + "\\n" for key in words)
    sys.stderr.writelines(f"{key}: {known[key]}\\n" for key in words if " " in key)

for line in sys.stdin:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        with os.fdopen(writing, "w") as log:
            try:
                changes(json.loads(line), log)
            except Exception:
                pass
            log.flush()
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as log:
        print(json.dumps(log.read().splitlines()), flush=True)
    os.waitpid(child, 0)
"""
"""A process for each program: some end it."""


def changed_in(items: list[dict[str, object]]) -> tuple[int, Counter[str], Counter[str]]:
    """Of how many programs TVM makes a module; in how many a pass changes it, and in how many it raises."""
    done = subprocess.run(
        [sys.executable, "-c", CHANGES],
        input="".join(json.dumps(item) + "\n" for item in items).encode(),
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    words = [tuple(word.split(" ")) for answer in answers for word in dict.fromkeys(answer)]
    counts = [
        Counter(word[1] for word in words if word[0] == kind and word[1:]) for kind in ("changed", "ended")
    ]
    return sum("imported" in answer for answer in answers), *counts


def shown(changed: Counter[str], names: list[str]) -> str:
    never = [name for name in names if not changed[name]]
    return f"{len(names) - len(never)} of {len(names)}; never: {' '.join(never)}"


def lowered(name: str) -> bool:
    return name.startswith(("tirx.", "s_tir."))


@pytest.mark.parametrize("way", ["alone", "drawn"])
def test_how_many_passes_change_a_module(way, capsys):
    plan = Plan("random", Mode.STRICT, nodes=10, passes_of="tvm")
    alone = [list(repaired([name])) for name in PASSES]
    items: list[dict[str, object]] = [
        {
            "program": base64.b64encode(case.program).decode(),
            "sequences": alone if way == "alone" else [list(case.passes)],
        }
        for case in make_cases(plan, range(SEED, SEED + 2 * PROGRAMS))
        if way == "alone" or case.passes
    ][:PROGRAMS]
    imported, changed, ended = changed_in(items)
    with capsys.disabled():
        print(f"\n{way}: {imported} of {len(items)} programs are imported")
        print(f"  Relax: {shown(changed, [name for name in PASSES if not lowered(name)])}")
        print(f"  tirx and s_tir: {shown(changed, [name for name in PASSES if lowered(name)])}")
        print(f"  raise: {ended.most_common(12)}")
