"""All records, in their order; every fourth is looked at last."""

from tests.bench.realbugs.ort_contrib import CONTRIB
from tests.bench.realbugs.ort_kernels import KERNELS
from tests.bench.realbugs.ort_optimiser import OPTIMISER
from tests.bench.realbugs.torch_bugs import TORCH
from tests.bench.realbugs.tvm_bugs import TVM

MODELS = (*OPTIMISER, *KERNELS, *TVM, *CONTRIB)
BUGS = (*MODELS, *TORCH)
ASIDE = (*MODELS[3::4], *TORCH[3::4])
