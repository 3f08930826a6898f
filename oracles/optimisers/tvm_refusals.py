"""What TVM's own words say of a refusal: an operator or a type that it lacks, a form that it declines."""

from __future__ import annotations

import re

from oracles.in_worker.limits import DOCUMENTED
from oracles.run import Phase, Run, Status

UNSUPPORTED = re.compile(
    r"operators are not supported for frontend ONNX|Operator \w+ not implemented|takes no input of dtype"
    r"|[Uu]nsupported (numpy |ONNX |input |output |data)?(dtype|data ?type|type)|dtype \S+ is not supported"
    r"|Data type \S+ not supported|dtype\.bits % 8 == 0|unknown dtype `object`"
    r"|Nested parallel loop is not supported|arr_size == nbytes \(\d+ vs\. \d+\) : TensorCopyFromBytes"
    r"|: only support \w*(float|int)\d+|datatype should be one of \['|unknown intrinsic ir\.Op"
    r"|Do not have a default for tirx\.(Break|Continue)"
)
"""Refusals that name an operator or a dtype that TVM's tables do not have.

A weight of int4 or uint4 is refused by its bytes: TVM's tensors pack two values in a byte, numpy's do not.
"""

ILL_MARKED = re.compile(
    r"Double buffer scope must be inside a loop|InjectDoubleBuffer expects flat"
    r"|body of the software pipeline should be SeqStmt|pipeline annotation is .* with different size"
    r"|Shift amount must be non-negative and less than"
)
"""Words of passes that read what others do not: marks of loops to be pipelined and of memory in two halves
which do not fit, and shifts by more than the width, which mean nothing.

Runs without these passes never look at them, so that their success says nothing.
"""

ON_A_DEVICE = "CodeGenLLVM::GetThreadIndex"
"""What a CPU's code generator is at where a loop is bound to the threads of a device."""

LIMIT = re.compile(
    r"not (yet )?(supported|handled|implemented)|unsupported|must be (a )?(constant|static)|Dynamic \w+"
    r"|only supports?|currently|cannot handle|no value in Constant",
    re.IGNORECASE,
)


def classify(run: Run) -> str:
    """Classify a failed run by its own words; empty if it may be a bug."""
    if run.is_ok:
        return ""
    if ILL_MARKED.search(run.message):
        return "ill-marked"
    if run.error == "OpNotImplemented" or UNSUPPORTED.search(run.message) or ON_A_DEVICE in run.trace:
        return "unsupported"
    return ""


def tags(run: Run) -> tuple[str, ...]:
    """`importer-limit` for an error by which the importer says that it does not handle a form yet.

    What its own documentation claims stays a bug; the note quotes it.
    """
    if run.status is not Status.EXCEPTION or run.phase is not Phase.IMPORT or not LIMIT.search(run.message):
        return ()
    claim = re.search(rf"^{DOCUMENTED}(.+)$", run.trace, re.M)
    return (f"Its documentation says otherwise: {claim.group(1)}",) if claim else ("importer-limit",)
