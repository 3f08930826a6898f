"""Across devices: the same program on the GPU, where there is one."""

import os
from collections.abc import Iterator
from dataclasses import replace

from corpus.case import Case
from corpus.errors import UserError
from oracles.backends import find_backend
from oracles.optional import Asking, VariantRun, named

NAME = "devices"
GPU = "/dev/nvidiactl"


def ways(case: Case, asking: Asking) -> Iterator[VariantRun]:
    """Yield the optimised way on CUDA; none without a GPU, or for a backend that runs on the CPU only."""
    if asking.target.device != "cpu" or not os.path.exists(GPU):
        return
    try:
        configs = find_backend(asking.target.backend).configs(replace(asking.target, device="cuda"))
    except UserError:
        return
    yield VariantRun(named(NAME, configs[min(1, len(configs) - 1)], "cuda"))
