"""What a rule may ask about the case before it: each answer is computed at most once, and only when asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np
import onnx

from corpus.formats.onnx import checker_complaint
from corpus.onnx.graph import producers, walk_model
from corpus.values import Value
from oracles.naming.names import names_of
from oracles.numerics.compare import Tolerance, compare, distance, is_float, widen
from oracles.numerics.operators import operator_of
from oracles.numerics.value_types import Types, static_dims, tensor_types, type_complaint
from oracles.probes.alone import node_alone, type_alone
from oracles.probes.noise import Noise
from oracles.probes.parting import Differs, FirstParting, Parting
from oracles.probes.truth import Truth, truths
from oracles.run import Config, Run
from oracles.sandbox.sandbox import Job

REPEATS = 4

EXACT_LEVELS = ("basic",)
"""Levels at which no group of quantised nodes becomes one integer kernel: every quantisation rounds alone."""

MUCH = 6.0
"""How many times its spread a tensor must be away to be where two ways part."""


class Context:
    """One case on its way through the rules.

    `tolerance` says which differences are plain, `screen` which are looked at all the same.

    `rerun` runs other programs in the backend's un-optimised configuration; `ask_referee` runs the case
    itself in an independent implementation. Both cost time, so only a suspicious case gets so far. `earlier`
    holds un-optimised runs of the same program made before those under judgement.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        job: Job,
        *,
        classify: Callable[[Run], str],
        tolerance: Tolerance,
        screen: Tolerance | None = None,
        is_wide: bool = False,
        accept_invalid: bool,
        rerun: Callable[[Job], tuple[Run, ...]],
        ask_referee: Callable[[Job], Run],
        run_job: Callable[[Job], tuple[Run, ...]] | None = None,
    ) -> None:
        self.model = model
        self.job = job
        self.tolerance = tolerance
        self.screen = screen or tolerance
        self.notes: list[str] = []
        self.earlier: tuple[Run, ...] = ()
        self._classify = classify
        self._is_wide = is_wide
        self._accept_invalid = accept_invalid
        self.rerun = rerun
        self.ask_referee = ask_referee
        self._run_job = run_job
        self._partings: dict[tuple[Config, str], Parting | None] = {}
        self._told: list[Truth] = []

    def classify(self, run: Run) -> str:
        """What the backend knows about its own message: `unsupported`, `invalid-input` … or nothing."""
        return self._classify(run)

    @cached_property
    def complaint(self) -> str | None:
        """Why the checker rejects the model; None when it does not, or when invalid models are accepted."""
        if self._accept_invalid:
            return None
        return checker_complaint(self.model) or type_complaint(self.model)

    @cached_property
    def names(self) -> frozenset[str]:
        return names_of(self.model)

    def shape_of(self, name: str) -> tuple[int, ...] | None:
        """The shape that inference gives a value on these inputs; None where it is not known."""
        declared = self._types.get(name)
        return static_dims(declared) if declared is not None else None

    def left_open(self, output: str) -> str:
        """What before an output may give what it likes, of programs that are no ONNX models; else empty."""
        return ""

    @cached_property
    def _types(self) -> Types:
        return tensor_types(self.model, self.job.inputs)

    @cached_property
    def referee(self) -> Run:
        """The run of an independent implementation (the reference evaluator, or onnxruntime for that one)."""
        return self.ask_referee(self.job)

    @cached_property
    def own_truth(self) -> Truth | None:
        """What the un-optimised backend makes of the program in float64; None where it cannot run that."""
        if not any(self.noise.widens(output.name) for output in self.model.graph.output):
            return None
        return next(truths(self.model, self.job, lambda job: self.rerun(job)[0]), None)

    def truths_for(self, output: str) -> Iterator[Truth]:
        """What implementations make of the program in float64: the referee, then the un-optimised backend.

        That one says nothing new of an output before which no float becomes a wider one.
        """
        for truth in self._truths():
            if not truth.is_own or self.noise.widens(output):
                yield truth

    def _truths(self) -> Iterator[Truth]:
        yield from tuple(self._told)
        for truth in self._untold:
            self._told.append(truth)
            yield truth

    @cached_property
    def _untold(self) -> Iterator[Truth]:
        return truths(self.model, self.job, self.ask_referee, lambda job: self.rerun(job)[0])

    def declared(self, name: str) -> onnx.TypeProto.Tensor | None:
        """The type that a value of the main graph must have, by what flows into its node where need be."""
        if name not in self._declared:
            known, node = self.noise.types.get(name), self._makers.get(name)
            if node is not None and (known is None or static_dims(known) is None):
                values = self.noise.recording.values
                known = type_alone(self.model, node, name, values, self.job) or known
            self._declared[name] = known
        return self._declared[name]

    @cached_property
    def _declared(self) -> dict[str, onnx.TypeProto.Tensor | None]:
        return {}

    @cached_property
    def _makers(self) -> dict[str, onnx.NodeProto]:
        return producers(self.model.graph)

    def parting(self, config: Config, output: str) -> Parting | None:
        """The first tensor before an output at which a configuration parts from the un-optimised run."""
        if self._run_job is None or not self.model.graph.node:
            return None
        key = config, output
        if key not in self._partings:
            job = replace(self.job, configs=(config,))
            values = self.noise.recording.values
            way = FirstParting(self.model, job, self._run_job, values, self._parter(config))
            self._partings[key] = way.first(output, self.noise.ancestors(output))
        return self._partings[key]

    def _parter(self, config: Config) -> Differs:
        """What tells a tensor that is wrong in a configuration from one that is only rounded otherwise."""
        spreads = self.noise.spreads(config.get("level") not in EXACT_LEVELS)

        def differs(name: str, expected: Value, actual: Value) -> bool:
            found = compare(name, expected, actual, self.screen)
            if found is None or found.mask is None or name not in spreads:
                return found is not None
            left = np.asarray(expected)
            # noise was put into runs without NaN and infinity: of these it says nothing
            is_plain = np.isfinite(widen(left)) if is_float(left) else np.ones(left.shape, bool)
            apart = distance(left, np.asarray(actual))
            return bool(((apart > MUCH * spreads[name]) | ~is_plain)[found.mask].any())

        return differs

    def run_as(self, job: Job, config: Config) -> Run | None:
        """Another program under a configuration; None where nothing runs it."""
        return self._run_job(replace(job, configs=(config,)))[0] if self._run_job is not None else None

    def is_refused_alone(self, config: Config) -> bool:
        """Whether the configuration lacks what some node of the main graph needs by itself, too."""
        return any(self._lacks(node, config) for node in self.model.graph.node)

    def _lacks(self, node: onnx.NodeProto, config: Config) -> bool:
        output = next(filter(None, node.output), "")
        found = node_alone(self.model, node, output, self.noise.recording.values, self.job)
        if found is None or self._run_job is None:
            return False
        (run,) = self._run_job(replace(found[1], configs=(config,)))
        return not run.is_ok and self.classify(run) == "unsupported"

    def truths_of(self, parting: Parting) -> Iterator[Truth]:
        """What the referee makes in float64 of one node alone, on the values that flow into it."""
        found = node_alone(self.model, parting.node, parting.name, self.noise.recording.values, self.job)
        return truths(*found, self.ask_referee) if found is not None else iter(())

    @cached_property
    def is_random(self) -> bool:
        """Whether the model draws random numbers, so that two runs may differ."""
        return any(operator_of(node).is_random or _is_training(node) for node in walk_model(self.model))

    @cached_property
    def repeats(self) -> tuple[Run, ...]:
        """More un-optimised runs on the same inputs, in one process: memory is dirty from the second on."""
        return (*self.earlier, *(run for _ in range(REPEATS) for run in self.rerun(self.job)))

    @cached_property
    def noise(self) -> Noise:
        return Noise(self.model, self.job, self.rerun, is_wide=self._is_wide)


def _is_training(node: onnx.NodeProto) -> bool:
    """Whether it is a Dropout that may drop: only an input of its own can tell it to."""
    return node.op_type == "Dropout" and len(node.input) > 2 and bool(node.input[2])


def own(runs: tuple[Run, ...]) -> tuple[Run, ...]:
    """The runs of the target itself: not a baseline that is another backend's."""
    return tuple(run for run in runs if not run.config.backend)


def side_of(run: Run, runs: tuple[Run, ...]) -> str:
    """`optimised` for a failure that optimisation brings about: the target's own baseline has none."""
    return "" if run is own(runs)[0] or runs[0].config.backend else "optimised"


def evidence(runs: tuple[Run, ...], decisive: Run) -> tuple[Run, ...]:
    """The runs that a verdict rests on: the baseline and the decisive one; all where that is the baseline."""
    return runs if decisive is runs[0] else (runs[0], decisive)
