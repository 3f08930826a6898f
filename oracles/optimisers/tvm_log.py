"""What TVM says of its own passes in a log, and in the words of a refusal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set

from oracles.abilities import Passes, PassLog
from oracles.run import Config, Phase, Run, Status
from oracles.worker.limits import DOCUMENTED
from oracles.worker.tvm.passes import AT_WILL, LLVM, OPTIONAL

DISABLED_BY = '`tvm.transform.PassContext(disabled_pass=["{}"])`'

BEGINS, CHANGED = "crux: pass begins ", "crux: pass changed "
REPLACED = "crux: pass replaced "
UNNAMED = re.compile(r"_?\w*_?pipeline|sequential|tirx\.Filter|tirx\.BindTarget")
"""What runs other passes, or tells functions apart."""


def fired(run: Run) -> tuple[str, ...]:
    """The passes that changed the module, the code generator's included, and where the run died."""
    begun = [line.removeprefix(BEGINS) for line in run.log if line.startswith(BEGINS)]
    changed = [line.removeprefix(CHANGED) for line in run.log if line.startswith(CHANGED)]
    died_in = begun[-1:] if run.phase in ("optimise", "codegen") and not run.is_ok else []
    return tuple(dict.fromkeys(name for name in [*changed, *died_in] if not UNNAMED.fullmatch(name)))


def suspects(run: Run) -> tuple[str, ...]:
    """List the passes that fired and that a build can do without, and LLVM's."""
    known = frozenset(optimizers(run))
    return tuple(name for name in (*fired(run), LLVM) if name in known)


def told_with(name: str) -> tuple[str, ...]:
    """Return no pass: the watch tells of each pass by itself."""
    return ()


def has_fired(run: Run, name: str) -> bool:
    """Whether a pass changed the program."""
    return name in fired(run)


def optimizers(run: Run) -> tuple[str, ...]:
    """List the passes that ran and can be left out, and LLVM's optimisations if they are on."""
    ran = [line.removeprefix(BEGINS) for line in run.log if line.startswith(BEGINS)]
    names = [name for name in ran if name in OPTIONAL or name in AT_WILL]
    level = [LLVM] if run.config.get("opt-level") else []
    return tuple(dict.fromkeys([*names, *level]))


def replaced(run: Run, name: str) -> str:
    """What a pass took away and put in, each time that it changed the program."""
    head = f"{REPLACED}{name}: "
    return " ".join(line.removeprefix(head) for line in run.log if line.startswith(head))


def likely(names: Iterable[str], operators: Set[str]) -> tuple[str, ...]:
    """All of them: no pass starts at one operator."""
    return tuple(names)


def without(config: Config, disabled: Iterable[str]) -> Config:
    """The configuration with these passes disabled, in the case's own sequence and in every pipeline."""
    return config.adding("disabled_passes", disabled)


DISABLING = Passes(
    DISABLED_BY,
    fired,
    suspects,
    optimizers,
    likely,
    without,
    replaced=replaced,
    telling=PassLog(may_have_fired=fired, told_with=told_with, has_fired=has_fired),
)


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
