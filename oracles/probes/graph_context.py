"""What rules may ask about a case that is a graph of another format than ONNX.

What flows in is exact, for every way to run the program: only results are rounded. So after each binding its
floats move by some units of the last place; before one that sums many terms its operands do, whatever they
are: the sum may be taken in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TypeAlias

import numpy as np

from corpus.graphs.program import REF, Binding, GraphProgram, Json
from corpus.graphs.static import with_calls_written_out, with_static_dims
from corpus.values import Tensor, Value, is_float, widen
from oracles.abilities import Opened, language_of
from oracles.backends.golden import LEFT_OPEN
from oracles.naming import names_of_graph
from oracles.numerics.compare import Tolerance
from oracles.numerics.input_noise import EPSILON, MOST_NOISE, NOISE_ULPS, element_of, grid_factor
from oracles.numerics.rewrites import ACCUMULATING, RANDOM, left_open_by_graph, writes
from oracles.probes.context import Context, Truth
from oracles.probes.noise import SNAPPING, SampledNoise
from oracles.probes.record import Recording
from oracles.sandbox.executor import Executor, job_of
from oracles.sandbox.sandbox import Job
from oracles.verdict import Config, Phase, Run, Status

LOCAL = "function"
"""The operator of a binding whose value is a function."""

Rerun = Callable[[Job], tuple[Run, ...]]


def record_graph(program: GraphProgram, job: Job, rerun: Rerun) -> Recording:
    """The un-optimised run with every binding as an output; of one that breaks, the longest prefix."""
    known: dict[str, Value] = {**program.constants, **job.inputs}
    count = len(program.main.bindings)
    prefix = partial(_prefix, program, job, rerun)
    whole = prefix(count)
    if whole.is_ok:
        return Recording({**known, **_tensors(whole)}, None, True)
    works, fails, best = 0, count, None
    while fails - works > 1:
        middle = (works + fails) // 2
        run = prefix(middle)
        works, fails, best = (middle, fails, run) if run.is_ok else (works, middle, best)
    values = _tensors(best) if best is not None else {}
    return Recording({**known, **values}, program.main.bindings[works].name, True)


def recorded_outputs(program: GraphProgram, job: Job, run: Rerun) -> dict[str, Value]:
    """Every binding's value under the job's own configuration; empty where that does not run."""
    whole = _prefix(program, job, run, len(program.main.bindings))
    return _tensors(whole) if whole.is_ok else {}


def _prefix(program: GraphProgram, job: Job, rerun: Rerun, count: int) -> Run:
    bindings = program.main.bindings[:count]
    values = tuple(binding.name for binding in bindings if binding.op != LOCAL)
    main = replace(program.main, bindings=bindings, outputs=values)
    return rerun(replace(job, program=replace(program, main=main).to_bytes(), outputs=values))[0]


def _tensors(run: Run) -> dict[str, Value]:
    """The tensors of a run; a tuple's members take the names of the bindings that use them."""
    return {name: value for name, value in run.outputs.items() if isinstance(value, np.ndarray)}


Step: TypeAlias = tuple[str, Tensor]
"""An operator, and the constant that is its other operand."""

MOST_ELEMENTS = 1 << 22
MOST_WRITTEN_OUT, MOST_BINDINGS = 3, 400
"""How deep functions that call functions are written out, and how long a program may become by that."""


class GraphNoise(SampledNoise):
    """The effect of rounding on the results of one graph program."""

    def __init__(self, program: GraphProgram, job: Job, rerun: Callable[[Job], tuple[Run, ...]]) -> None:
        super().__init__(job, rerun)
        self.program = program

    @cached_property
    def recording(self) -> Recording:
        """The un-optimised run with every binding."""
        return record_graph(self.program, self._job, self._rerun)

    @cached_property
    def _plain(self) -> tuple[GraphProgram, Mapping[str, Value]]:
        """The program of static dims, which noise has, with functions in place of their calls; its values."""
        program, values = with_static_dims(self.program, self._job.inputs), self.recording.values
        for _ in range(MOST_WRITTEN_OUT):
            written = with_calls_written_out(program, values)
            if written is program or len(written.main.bindings) > MOST_BINDINGS:
                break
            recording = record_graph(written, self._job, self._rerun)
            if recording.crashed_at:
                break
            program, values = written, recording.values
        return program, values

    @property
    def quantises(self) -> bool:
        """No operator rounds its input to steps."""
        return False

    def widens(self, name: str) -> bool:
        """True: nobody has looked at the types."""
        return True

    def ancestors(self, name: str) -> set[str]:
        """The names that a binding is computed from, itself included."""
        makers = {binding.name: binding for binding in self.program.main.bindings}
        found, waiting = {name}, [name]
        while waiting:
            maker = makers.get(waiting.pop())
            new = set(maker.reads) - found if maker is not None else set()
            found |= new
            waiting += new
        return found

    def _can_move(self, name: str) -> bool:
        """Whether anything before an output is a float that was computed, or was not seen."""
        made = {binding.name for binding in self.program.main.bindings} & self.ancestors(name)
        values = (self.recording.values.get(each) for each in made)
        return any(not isinstance(value, np.ndarray) or is_float(value) for value in values)

    def _is_defined(self, name: str) -> bool:
        """Nothing: for other formats no table says which operators define how to treat NaN and infinity."""
        return not self.nonfinite.intersection(self.ancestors(name))

    def _only_passes(self, name: str) -> bool:
        return False

    def unknown_before(self, name: str) -> str:
        """Empty: the operators' names say how they round."""
        return ""

    def _noisy_run(self, seed: int, values: Mapping[str, Value]) -> Run:
        """Run with noise around those bindings whose values are given."""
        if seed in SNAPPING:
            noisy = snapped_program(self._plain[0], values, SNAPPING[seed])
        else:
            noisy = noisy_program(self._plain[0], values, seed)
        return self._rerun(replace(self._job, program=noisy.to_bytes()))[0]

    @cached_property
    def _first_run(self) -> Run:
        """The run of the first seed with noise around every binding; some may take none where it raises."""
        return self._noisy_run(1, self._plain[1])

    @cached_property
    def _movable(self) -> Mapping[str, Value]:
        """The values that may be moved: TVM, for one, takes those of type Any in no arithmetic."""
        program, values = self._plain
        if self._first_run.status is not Status.EXCEPTION:
            return values
        refused = self._refused([each.name for each in program.main.bindings if each.name in values])
        return {name: value for name, value in values.items() if name not in refused}

    def _refused(self, names: Sequence[str]) -> set[str]:
        """Those of the bindings around which no noise can be put, told by halves."""
        found = {name: self._plain[1][name] for name in names}
        if not names or self._noisy_run(1, found).status is not Status.EXCEPTION:
            return set()
        if len(names) == 1:
            return set(names)
        middle = len(names) // 2
        return self._refused(names[:middle]) | self._refused(names[middle:])

    def _sample(self, seed: int, steps: bool) -> Mapping[str, Value] | None:
        is_first = seed == 1 and self._movable is self._plain[1]
        run = self._first_run if is_first else self._noisy_run(seed, self._movable)
        if run.is_ok:
            names = self.program.main.outputs
            return {**run.outputs, **dict(zip(names, run.outputs.values(), strict=False))}
        if run.status is not Status.EXCEPTION:
            self._gave_up = True
        return None


def noisy_program(program: GraphProgram, values: Mapping[str, Value], seed: int) -> GraphProgram:
    """The program with noise around its bindings; even seeds move everything the other way than odd ones."""
    rng = np.random.default_rng((seed + 1) // 2)
    sign = 1 if seed % 2 else -1
    product = language_of(program.format).arithmetic[0]
    return _moved(program, values, lambda value: [(product, _factor(value, rng, sign))], operands=True)


def snapped_program(program: GraphProgram, values: Mapping[str, Value], snaps: float) -> GraphProgram:
    """The program with each result on a grid of round numbers, as `Perturbation` snaps them."""
    _, add, subtract = language_of(program.format).arithmetic

    def through(value: Tensor) -> list[Step]:
        large = _large(value, snaps)
        return [(add, large), (subtract, large)]

    return _moved(program, values, through, operands=False)


def _moved(
    program: GraphProgram,
    values: Mapping[str, Value],
    steps_of: Callable[[Tensor], list[Step]],
    operands: bool,
) -> GraphProgram:
    """The program with these steps after each binding of floats; with `operands` before each sum, too."""
    constants = dict(program.constants)
    bindings: list[Binding] = []
    instead: dict[str, str] = {}
    budget = MOST_ELEMENTS

    def add_steps(name: str, source: str) -> str:
        """The name of the moved value, or of the value itself where it cannot be moved."""
        nonlocal budget
        value = values.get(name)
        if name in mutated or not isinstance(value, np.ndarray) or not is_float(value) or not value.size:
            return source
        budget -= value.size
        for op, constant in steps_of(value) if budget >= 0 else ():
            factor = f"{source}__noise{len(constants)}"
            if {factor, f"{factor}_"} & program.names:
                return source
            constants[factor] = constant
            bindings.append(Binding(f"{factor}_", op, ({REF: source}, {REF: factor})))
            source = f"{factor}_"
        return source

    mutated: frozenset[str] = frozenset(
        name for binding in program.main.bindings if writes(binding) for name in binding.reads
    )
    for binding in program.main.bindings:
        local = dict(instead)
        if operands and ACCUMULATING.search(binding.op):
            local.update((name, add_steps(name, instead.get(name, name))) for name in binding.reads)
        bindings.append(redirected(binding, local))
        instead[binding.name] = add_steps(binding.name, binding.name)
    outputs = tuple(instead.get(name, name) for name in program.main.outputs)
    main = replace(program.main, bindings=tuple(bindings), outputs=outputs)
    return replace(program, main=main, constants=constants)


def redirected(binding: Binding, instead: Mapping[str, str]) -> Binding:
    """The binding with what it reads taken from elsewhere; bodies keep what they captured."""

    def change(item: Json) -> Json:
        if isinstance(item, dict) and item.get(REF) in instead and len(item) == 1:
            return {REF: instead[item[REF]]}
        return item

    return binding.mapped(change)


def _factor(value: Tensor, rng: np.random.Generator, sign: int) -> Tensor:
    drawn = rng.uniform(-1, 1, value.shape)
    noise = (drawn + np.sign(drawn)) / 2 * sign
    element = element_of(value.dtype)
    size = min(MOST_NOISE, NOISE_ULPS * EPSILON[element]) if element is not None else 0.0
    return np.asarray(1 + noise * size, dtype=np.float64).astype(widen(value).dtype).astype(value.dtype)


def _large(value: Tensor, snaps: float) -> Tensor:
    """The number that rounds a value to a grid if added and taken away; 0 if it is not near."""
    element = element_of(value.dtype)
    if element is None:
        return np.zeros_like(value)
    narrow = widen(value)
    with np.errstate(over="ignore", invalid="ignore"):
        large = (np.abs(narrow) * grid_factor(NOISE_ULPS, element, snaps)).astype(value.dtype)
        snapped = widen((value + large) - large)
        is_near = np.abs(snapped - narrow) <= np.abs(narrow) * min(NOISE_ULPS * EPSILON[element], MOST_NOISE)
    return np.asarray(np.where(is_near, large, np.zeros_like(large)))


def open_graph(
    opened: Opened, executor: Executor, *, tolerance: Tolerance, screen: Tolerance, accept_invalid: bool
) -> GraphContext:
    """Open a graph for the rules, with the backend's way to compute it in float64."""
    case, graphs = opened.case, executor.backend.graphs_of(opened.case.format)
    double = Config("float64", graphs.double) if graphs is not None and graphs.double else None
    if graphs is not None and graphs.referee:
        double = Config("float64", graphs.double, backend=graphs.referee)
    job = job_of(case, executor.configs[:1])
    return GraphContext(case.parsed, job, executor, double=double, tolerance=tolerance, screen=screen)


class GraphContext(Context):
    """One such case on its way through the rules.

    The framework itself is asked for the types, or why the program is ill-formed. The referee is the program
    in float64 if the backend can do that (`double`); else a well-formed program counts as one that runs.
    """

    def __init__(
        self,
        program: GraphProgram,
        job: Job,
        executor: Executor,
        *,
        double: Config | None,
        tolerance: Tolerance,
        screen: Tolerance,
    ) -> None:
        super().__init__(job, executor, tolerance=tolerance, screen=screen)
        self.program = program
        self._double = double

    @cached_property
    def complaint(self) -> str | None:
        """The framework's reason for calling the program ill-formed; None if it is well-formed."""
        answer = self.executor.describe(self.job.program, self.job.inputs)
        return str(answer["error"]) if "error" in answer else None

    @cached_property
    def names(self) -> frozenset[str]:
        """The names in the program."""
        return names_of_graph(self.program)

    @cached_property
    def is_random(self) -> bool:
        """Whether an operator by its name draws random numbers."""
        return any(RANDOM.search(binding.op) for binding in self.program.main.walk())

    @cached_property
    def noise(self) -> GraphNoise:
        """The effect of rounding on the program's results."""
        return GraphNoise(self.program, self.job, self.rerun)

    @cached_property
    def own_truth(self) -> Truth | None:
        """The program in float64 by its own framework; None if it cannot be had."""
        return next(self._truths(), None)

    @cached_property
    def undefined(self) -> str:
        """What the program leaves open, in a function that it calls too, by the reference of its language."""
        return _what_is_left_open(self._whole_in_double)

    def left_open(self, output: str) -> str:
        """Say why the program leaves this output open; empty if it does not."""
        wanted = self.noise.ancestors(output)
        if found := left_open_by_graph(self.program, wanted, self.noise.recording.values):
            return found
        if self._whole_in_double is None or self._whole_in_double.is_ok:
            return ""  # then no part of it is left open
        bindings = tuple(each for each in self.program.main.bindings if each.name in wanted)
        main = replace(self.program.main, bindings=bindings, outputs=(output,))
        alone = replace(self.program, main=main).to_bytes()
        return _what_is_left_open(self._in_double(replace(self.job, program=alone, outputs=(output,))))

    @cached_property
    def _untold(self) -> Iterator[Truth]:
        is_told = self.referee.is_ok and self.referee.outputs
        return iter([Truth("float64", self.referee.outputs)] if is_told else [])

    def ask_referee(self, job: Job) -> Run:
        """The program in float64; a run that is well if the backend cannot do that."""
        well_formed = Run(Config("well-formed"), Status.OK, Phase.EXECUTE)
        run = self._whole_in_double if job is self.job else self._in_double(job)
        return well_formed if run is None or self.classify(run) == "unsupported" else run

    @cached_property
    def _whole_in_double(self) -> Run | None:
        """The program itself in float64, run once for all that ask."""
        return self._in_double(self.job)

    def _in_double(self, job: Job) -> Run | None:
        """A run in float64; None if the backend cannot do that."""
        if self._double is None:
            return None
        return self.executor.run(replace(job, configs=(self._double,)))[0]


def _what_is_left_open(run: Run | None) -> str:
    return run.message if run is not None and run.error == LEFT_OPEN else ""
