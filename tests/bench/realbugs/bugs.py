"""All records, in their order; every fourth is looked at last."""

from tests.bench.realbugs.ort_contrib import CONTRIB
from tests.bench.realbugs.ort_kernels import KERNELS
from tests.bench.realbugs.ort_optimiser import OPTIMISER
from tests.bench.realbugs.tvm_bugs import TVM

BUGS = (*OPTIMISER, *KERNELS, *TVM, *CONTRIB)
ASIDE = BUGS[3::4]
