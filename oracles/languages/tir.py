"""Modules of TVM's PrimFuncs, to the judge: an interpreter is their truth."""

from corpus.case import Case
from corpus.tir.program import has_blocks, is_flat, marks, parse, words
from corpus.tir.tree import Module
from oracles.abilities import Language, Opened
from oracles.naming import names_of_loops
from oracles.numerics.compare import Tolerance
from oracles.probes.tir_context import ROUNDING, TirContext, contradiction, interpretation_of
from oracles.sandbox.executor import Executor, job_of
from oracles.verdict import Run
from oracles.worker.tvm.passes import BLOCKS, PLAIN_LOOPS


def _open(
    opened: Opened, executor: Executor, *, tolerance: Tolerance, screen: Tolerance, accept_invalid: bool
) -> TirContext:
    """Open a module for the rules: every difference is plain where the program is defined."""
    job = job_of(opened.case, executor.configs[:1])
    return TirContext(job, executor, tolerance=tolerance, screen=tolerance)


def facts(program: bytes) -> frozenset[str]:
    """The form of a module: blocks, plain loops, or these over buffers of one dim."""
    module = parse(program)
    found = marks(module)
    if has_blocks(module):
        boxed = {"boxed"} if "doubled" in found else set()
        return BLOCKS | found | boxed
    return PLAIN_LOOPS | found | ({"flat"} if is_flat(module) else set())


def _is_suspect(case: Case, run: Run) -> bool:
    return contradiction(interpretation_of(case.program, case.inputs, case.passes), run, ROUNDING) is not None


def _pattern(module: Module) -> str:
    """The types of what flows in, then each kind of statement and operator, once."""
    flowing = {item.dtype for item in module.main.params}
    return " ".join([*sorted(flowing), *dict.fromkeys(words(module))])


LANGUAGE = Language(
    open=_open,
    names=names_of_loops,
    pattern=_pattern,
    is_suspect=_is_suspect,
    checks_passes=True,
    runs_quickly=True,
    facts=facts,
    operators_tell=False,
)
