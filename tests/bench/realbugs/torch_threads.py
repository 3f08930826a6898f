"""`python -m tests.bench.realbugs.torch_threads [ID…]`: torch's bugs as people post them, to `crux scrub`.

Each text is ours, in a way in which threads tell such a bug. A line says what is taken of it: the kind of
failure it complains of, and the first case that fails so.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from corpus.errors import UserError
from tests.bench.realbugs.torch_bugs import TORCH
from triage.cases.scrubbing import take
from triage.cases.sources import Judges, judge_often
from triage.console.options import CaseOptions

THREADS = {
    "torch-floor-division": """\
### 🐛 Describe the bug

Bins computed with `//` move by one as soon as the function is compiled.

```python
import torch

def binned(a, b):
    return a // b

a = torch.tensor([1.0, 0.5, 6.0])
b = torch.tensor([0.1, 0.1, 0.2])
print("eager   ", binned(a, b))
print("inductor", torch.compile(binned)(a, b))
torch.testing.assert_close(torch.compile(binned)(a, b), binned(a, b))
```

### Versions

torch 2.13.0, CPU
""",
    "torch-any-of-bytes": """\
`torch.any` of a uint8 tensor changes its type when compiled.

```python
>>> import torch
>>> x = torch.tensor([[0, 3], [0, 0]], dtype=torch.uint8)
>>> f = lambda x: torch.any(x) * 200 + 100
>>> f(x)
tensor(44, dtype=torch.uint8)
>>> torch.compile(f)(x)
tensor(300)
```
""",
    "torch-lerp-of-bools": """\
**Repro**

```py
import torch

@torch.compile
def mix(start, end, weight):
    return torch.lerp(start, end, weight)

mask = torch.tensor([True, False, True])
print(mix(mask, ~mask, torch.tensor(0.3)))
```

**Error**

```
torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:
RuntimeError: Subtraction, the `-` operator, with two bool tensors is not supported.
```
""",
    "torch-sum-to-bool": """\
Reducing a half tensor straight to bool does not build.

```python
import torch
import torch.nn as nn


class AnyNonZero(nn.Module):
    def forward(self, x):
        return torch.sum(x, dtype=torch.bool)


def main():
    torch.manual_seed(0)
    model = AnyNonZero().eval()
    x = torch.randn(3, 4).half()
    with torch.no_grad():
        expected = model(x)
        actual = torch.compile(model, mode="default")(x)
    assert expected == actual


if __name__ == "__main__":
    main()
```
""",
    "torch-scan-of-scalar": """\
```python
import torch

def f():
    return torch.tensor(5.0).cumsum(0)

for backend in ["eager", "aot_eager", "inductor"]:
    torch._dynamo.reset()
    try:
        print(backend, torch.compile(f, backend=backend)())
    except Exception as e:
        print(backend, "FAILED", type(e).__name__, e)
```

Prints FAILED for inductor only.
""",
    "torch-shift-rows": """\
In-place shift of a buffer, device cuda or cpu, any size.

```python
import sys
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"

def shift(history):
    history[1:] = history[:-1].clone()
    return history

opt_shift = torch.compile(shift, fullgraph=True)
x = torch.rand(3, 16, 16, device=device)
want = shift(x.clone())
got = opt_shift(x.clone())
bad = int((want != got).sum())
print(f"{bad} of {want.numel()} differ")
sys.exit(1 if bad else 0)
```
""",
    "torch-index-put-flip": """\
```python
import torch

def step(x):
    x.index_put_((torch.arange(x.size(0)),), x * 2.0)
    x.add_(x.flip(0))
    return x

def test_step():
    x = torch.rand(4, 8)
    ref = step(x.clone())
    out = torch.compile(step, dynamic=True)(x.clone())
    assert torch.allclose(ref, out), (ref - out).abs().max()

if __name__ == "__main__":
    test_step()
```

    AssertionError: tensor(1.6)
""",
    "torch-copy-then-change": """\
The copy sees the later update. aot_eager is right.

```python
import torch

def fn(dst, src):
    dst[0:, :] = src[0:, :]
    src.add_(1)
    return src

dst_e, src_e = torch.zeros(3, 4), torch.arange(12.0).view(3, 4)
dst_c, src_c = dst_e.clone(), src_e.clone()
fn(dst_e, src_e)
torch.compile(fn, backend="inductor")(dst_c, src_c)
print("dst equal:", torch.equal(dst_c, dst_e))
if not torch.equal(dst_c, dst_e):
    raise SystemExit("wrong")
```
""",
    "torch-jacobian-of-halves": """\
```python
import torch
from torch.func import jacfwd

def f(x):
    y = torch.mm(torch.prod(x) + x, torch.sum(x) + x)
    return torch.sum(torch.mm(y, torch.sum(x) + x))

x = (torch.arange(1, 10, dtype=torch.float16) / 10).reshape(3, 3)
print(jacfwd(f)(x))
print(torch.compile(jacfwd(f))(x))
```
""",
    "torch-onnx-right-shift": """\
The TorchScript exporter turns `>>` into a division.

```python
import io
import numpy as np
import onnxruntime as ort
import torch

class Shift(torch.nn.Module):
    def forward(self, x):
        return x >> 1

x = torch.tensor([-3, -4, 5])
buffer = io.BytesIO()
torch.onnx.export(Shift(), (x,), buffer, dynamo=False, input_names=["x"])
session = ort.InferenceSession(buffer.getvalue(), providers=["CPUExecutionProvider"])
(got,) = session.run(None, {"x": x.numpy()})
np.testing.assert_array_equal(got, Shift()(x).numpy())
```
""",
    "torch-onnx-divisor": """\
```python
import numpy as np
import onnxruntime
import torch

model = torch.nn.AvgPool2d(2, stride=2, divisor_override=3).eval()
x = torch.rand(1, 1, 6, 6)
torch.onnx.export(model, (x,), "pool.onnx", dynamo=True)
session = onnxruntime.InferenceSession("pool.onnx")
feeds = {session.get_inputs()[0].name: x.numpy()}
out = session.run(None, feeds)[0]
print("max diff", np.abs(out - model(x).numpy()).max())
assert np.allclose(out, model(x).numpy(), atol=1e-5)
```
""",
    "torch-onnx-scatter-mean": """\
`include_self=False` is lost for `mean`:

```python
import torch
import onnxruntime as ort

class M(torch.nn.Module):
    def forward(self, x, index, src):
        return x.scatter_reduce(0, index, src, "mean", include_self=False)

args = (torch.ones(5), torch.tensor([1, 1]), torch.tensor([4.0, 6.0]))
program = torch.onnx.export(M(), args, dynamo=True)
print(program(*args)[0], "expected", M()(*args))
torch.testing.assert_close(program(*args)[0], M()(*args))
```
""",
}


def told(text: str, path: Path, judges: Judges) -> tuple[str, str]:
    """What is taken of a text: the kind of its complaint, and the case that fails so."""
    path.write_text(text)
    try:
        taken = take(path, judges.options)
    except UserError as error:
        return "", str(error)
    judged = []
    for case in taken.cases[:6]:
        assert case.target is not None
        judged.append(judge_often(judges.of(case.target, case.format), case, 1)[1])
        if judged[-1]["bug"] and taken.fits(judged[-1]["outcome"]):
            break
    chosen = taken.likeliest(judged)
    words = f"{chosen['target']}: {chosen['title'][:90]}" if chosen else f"none of {len(taken.cases)} cases"
    return taken.complaint.kind, f"{words} {'; '.join(taken.notes)[:200]}"


def main(ids: list[str]) -> None:
    """Print a line for each thread."""
    targets = {bug.id: bug.target.partition("@")[0] for bug in TORCH}
    with Judges(CaseOptions(trust=True)) as judges, tempfile.TemporaryDirectory() as folder:
        for id, text in THREADS.items():
            if not ids or id in ids:
                kind, words = told(text, Path(folder) / f"{id}.md", judges)
                mark = "taken" if words.startswith(targets[id]) else "NOT"
                print(f"{mark} {id} ({kind}) {words}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
