"""What rules may ask about a case of TIR: the interpreter's word is the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

import numpy as np

from corpus.tir.forms import is_float
from corpus.tir.program import parse
from corpus.tir.tree import Module
from corpus.tir.values import Binary, Const, Expr, literal, type_of
from corpus.tir.walk import map_expressions
from corpus.values import Tensor, Value
from oracles.naming import names_of_loops
from oracles.numerics.compare import Difference, Tolerance, compare_tensors, describe
from oracles.probes.context import INTERPRETER, Context, Truth
from oracles.probes.noise import Noise
from oracles.probes.record import Recording
from oracles.sandbox.sandbox import Job
from oracles.tir.interpreter import Interpretation, interpret
from oracles.verdict import Config, Phase, Run, Status
from oracles.worker.tvm.sequences import PREFIX


class TirContext(Context):
    """One such case on its way through the rules.

    The referee is the interpreter: it refuses what is not defined, and what it does not know counts as run.
    """

    @cached_property
    def interpretation(self) -> Interpretation:
        """Interpret the case."""
        return interpretation_of(self.job.program, self.job.inputs, self.job.passes)

    @cached_property
    def complaint(self) -> str | None:
        """TVM's reason for calling the module ill-formed; None if it is well-formed."""
        answer = self.executor.describe(program_bytes(self.job.program), {})
        return str(answer["error"]) if "error" in answer else None

    @cached_property
    def names(self) -> frozenset[str]:
        """The names in the program."""
        return names_of_loops(parse(program_bytes(self.job.program)))

    @property
    def undefined(self) -> str:
        """Say why the program is not defined; empty if it is, or if the interpreter does not know it."""
        return self.interpretation.reason if self.interpretation.is_modelled else ""

    def excuse(self, run: Run) -> str:
        """Also for reading what nothing was written to, if the program itself may do so."""
        if run.error == READS_UNWRITTEN and not self.interpretation.is_defined:
            return self.undefined or "what it gives hangs on memory that nothing was written to"
        return self.undefined

    def contradicted_by_interpreter(self, run: Run) -> tuple[Difference, Value] | None:
        """The first output of a run that is another than the interpreter's, with rounding left out."""
        found = contradiction(self.interpretation, run, ROUNDING)
        if found is None:
            return None
        if self.noise.follows_by_identities(found.output, run.outputs.get(found.output), ROUNDING):
            return None
        return found, self.interpretation.outputs[found.output]

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """The shape that the interpreter gives an output."""
        found = self.interpretation.outputs.get(name)
        return found.shape if found is not None else None

    @cached_property
    def is_random(self) -> bool:
        """Whether some results depend on fresh memory, which may hold other values in every run."""
        return not self.interpretation.is_defined

    @cached_property
    def repeats(self) -> tuple[Run, ...]:
        """None for a program that is defined and whose un-optimised result is the interpreter's."""
        plain, found = self.plain, self.interpretation
        if plain is None or not plain.is_ok or not found.is_defined or contradiction(found, plain, ROUNDING):
            return self.earlier + self.more_runs()
        return self.earlier

    @cached_property
    def noise(self) -> TirNoise:
        """The effect of rounding on the results."""
        return TirNoise(self.interpretation, self.job, self.rerun)

    def truths_for(self, output: str) -> Iterator[Truth]:
        """Yield the interpreter's outputs, where it knows the program."""
        if self.interpretation.outputs:
            wide = {
                name: value.astype(np.float64) if value.dtype.kind not in "biuf" else value
                for name, value in self.interpretation.outputs.items()
            }
            yield Truth(INTERPRETER, wide)

    @property
    def _untold(self) -> Iterator[Truth]:
        return iter(())

    def ask_referee(self, job: Job) -> Run:
        """The interpreter's results of the case itself."""
        found = self.interpretation
        config = Config(INTERPRETER)
        if found.reason and found.is_modelled:
            return Run(config, Status.EXCEPTION, Phase.EXECUTE, error="Undefined", message=found.reason)
        return Run(config, Status.OK, Phase.EXECUTE, outputs=dict(found.outputs))


class TirNoise(Noise):
    """The effect of rounding on the results of one program, by the interpreter's noisy runs."""

    def __init__(
        self, interpretation: Interpretation, job: Job, rerun: Callable[[Job], tuple[Run, ...]]
    ) -> None:
        super().__init__(job, rerun)
        self.interpretation = interpretation

    @cached_property
    def _by_identities(self) -> Interpretation | None:
        """The program by identities that TVM holds for floats; None where none applies."""
        module = parse(program_bytes(self._job.program))
        simpler = by_identities(module)
        return interpret(simpler, self._job.inputs) if simpler != module else None

    def follows_by_identities(self, name: str, actual: Value | None, tolerance: Tolerance) -> bool:
        """Whether an output is what those identities give, which leaves it open; notes so."""
        found = self._by_identities
        if found is None or found.reason or name not in found.outputs or actual is None:
            return False
        if defined_difference(found, name, found.outputs[name], actual, tolerance) is not None:
            return False
        self.notes.add("left open: TVM takes a sum's part for the sum less the other part in floats, too")
        return True

    @cached_property
    def recording(self) -> Recording:
        """The inputs; all values between inputs and outputs are private memory of the program."""
        return Recording(self._job.inputs, None, True)

    def ancestors(self, name: str) -> set[str]:
        """The output itself: it is not known which inputs reach it."""
        return {name}

    def unknown_before(self, name: str) -> str:
        """Empty: the interpreter knows every operator, or gives no outputs."""
        return ""

    def widens(self, name: str) -> bool:
        """True: nobody has looked at the types."""
        return True

    def beyond_noise(
        self,
        expected: Mapping[str, Value],
        actual: Mapping[str, Value],
        tolerance: Tolerance,
        *,
        steps: bool = True,
    ) -> Iterator[Difference]:
        """Yield the outputs that differ where the program is defined, by more than rounding may do."""
        if self.interpretation.reason and self.interpretation.is_modelled:
            self.notes.add(f"undefined: {self.interpretation.reason}")
            return
        for name, value in expected.items():
            difference = defined_difference(self.interpretation, name, value, actual.get(name), tolerance)
            if difference is not None and not self._is_open(name, value, actual.get(name), tolerance):
                yield difference

    def _is_open(self, name: str, expected: Value, actual: Value | None, tolerance: Tolerance) -> bool:
        """Whether each of two values is the interpreter's or what identities of floats give."""
        return all(
            defined_difference(
                self.interpretation, name, self.interpretation.outputs.get(name, value), value, tolerance
            )
            is None
            or self.follows_by_identities(name, value, tolerance)
            for value in (expected, actual)
            if value is not None
        )


def defined_difference(
    found: Interpretation, name: str, expected: Value, actual: Value, tolerance: Tolerance
) -> Difference | None:
    """Compare two values of an output where it is defined; None if rounding or chance explains them."""
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return None
    difference = compare_tensors(name, expected, actual, tolerance)
    if difference is None or difference.mask is None or name not in found.defined:
        return difference
    with np.errstate(all="ignore"):
        apart = np.abs(expected.astype(np.float64) - actual.astype(np.float64))
    mask = difference.mask & found.defined[name] & ~(apart <= found.slack[name])
    return describe(name, expected, actual, mask) if mask.any() else None


READS_UNWRITTEN = "ReadsUnwritten"
"""The worker's error for a result that hangs on what fresh memory holds."""
ROUNDING = Tolerance(rtol=1e-4, atol=1e-6)
"""What an un-optimised run may differ by beyond what noise tells: functions are computed in another way."""


def contradiction(found: Interpretation, run: Run, tolerance: Tolerance) -> Difference | None:
    """The first output of a run that is another than the interpreter's."""
    for name, expected in found.outputs.items():
        actual = run.outputs.get(name)
        if isinstance(actual, np.ndarray):
            difference = defined_difference(found, name, expected, actual, tolerance)
            if difference is not None:
                return difference
    return None


def interpretation_of(
    program: object, inputs: Mapping[str, Value], passes: Sequence[str] = ()
) -> Interpretation:
    """Interpret a case's program on its inputs; the last results are remembered.

    Steps of a schedule rely on it that a block writes all that it says.
    """
    in_full = any(name.startswith(PREFIX) for name in passes)
    arrays = tuple((name, str(each.dtype), each.shape, each.tobytes()) for name, each in _arrays(inputs))
    if len(arrays) != len(inputs):
        return interpret(parse(program_bytes(program)), inputs, in_full=in_full)
    return _remembered(program_bytes(program), arrays, _Inputs(inputs), in_full)


def _arrays(inputs: Mapping[str, Value]) -> list[tuple[str, Tensor]]:
    return [(name, each) for name, each in inputs.items() if isinstance(each, np.ndarray)]


class _Inputs:
    """Inputs that are told apart elsewhere: any two of them are equal."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        self.values = values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Inputs)

    def __hash__(self) -> int:
        return 0


@lru_cache(maxsize=64)
def _remembered(program: bytes, arrays: tuple[object, ...], inputs: _Inputs, in_full: bool) -> Interpretation:
    return interpret(parse(program), inputs.values, in_full=in_full)


def program_bytes(program: object) -> bytes:
    """A job's program as bytes: this format has no files beside it."""
    assert isinstance(program, bytes)
    return program


def by_identities(module: Module) -> Module:
    """The module after every such rewrite; equal to the given one where none applies."""
    return Module({name: map_expressions(each, _simpler) for name, each in module.functions.items()})


def _simpler(expr: Expr) -> Expr:
    if not isinstance(expr, Binary) or not is_float(type_of(expr.a)):
        return expr
    match expr:
        case Binary("sub", a, b) if a == b:
            return literal(0, expr.dtype)
        case Binary("sub", Binary("add", a, b), c) if c in (a, b):
            return a if b == c else b
        case Binary("sub", a, Binary("add", b, c)) if a in (b, c):
            return Binary("sub", literal(0, expr.dtype), c if a == b else b)
        case Binary("mul", a, b) if _is_zero(a) or _is_zero(b):
            return literal(0, expr.dtype)
        case Binary("div", a, _) if _is_zero(a):
            return literal(0, expr.dtype)
        case Binary("eq", a, b) if a == b:
            return literal(True, expr.dtype)
    return expr


def _is_zero(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value == 0
