"""The environment that a worker gets: made from a list of what it may have, so that no token is in it."""

from __future__ import annotations

import os
import re

KEPT = ("LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "PATH", "TERM", "CC", "CXX")
KEPT_KINDS = re.compile(
    r"(LC|OMP|GOMP|KMP|MKL|OPENBLAS|BLIS|NUMEXPR|MALLOC|GLIBC|CUDA|CUDNN|CUBLAS|NVIDIA|NCCL|HIP|HSA|ROCM|ATEN"
    r"|TORCH|TORCHINDUCTOR|TORCHDYNAMO|PYTORCH|TRITON|INDUCTOR|ORT|ONNX|ONNXRUNTIME|TVM|DMLC|DNNL|ONEDNN|XLA|LLVM)_[A-Z0-9_]+"
)
SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE|APIKEY|(^|_)(KEY|AUTH|PAT)(_|$)")
"""What a name holds whose value is nobody else's business, whatever kind it is of."""
USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def worker_environment(work: str) -> dict[str, str]:
    """Return the environment of a worker; its home and temporary folder are `work`."""
    found = {name: value for name, value in os.environ.items() if is_allowed(name)}
    found.setdefault("PATH", USUAL_PATH)
    found |= {"HOME": work, "TMPDIR": work, "XDG_CACHE_HOME": work, "USER": "crux", "LOGNAME": "crux"}
    return found


def is_allowed(name: str) -> bool:
    """Return whether a variable is a setting of frameworks, no secret, and no cache that lies outside."""
    is_setting = name in KEPT or KEPT_KINDS.fullmatch(name) is not None
    return is_setting and SECRET.search(name) is None and not name.endswith("_CACHE_DIR")
