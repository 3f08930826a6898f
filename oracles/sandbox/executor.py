"""Runs cases of one target in its sandboxes; gives no judgement."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import onnx

from corpus.allowance import OutOfTime
from corpus.case import PASSES, Case
from corpus.errors import UserError
from corpus.formats import find_format
from corpus.formats.onnx import parse
from corpus.target import Target
from corpus.values import Value
from oracles.abilities import language_of
from oracles.backends import find_backend
from oracles.native.watching import Watch
from oracles.sandbox.sandbox import RENEW_AFTER, Job, Sandbox, SandboxError
from oracles.verdict import Config, Limits, Phase, Run


def configs_of(target: Target, format: str) -> tuple[Config, ...]:
    """The configurations of a target for programs of a format, the un-optimised baseline first.

    The baseline may be another backend's. Raises `UserError` if the target runs no such programs.
    """
    configs = _configs_of(target, format)
    if find_backend(target.backend).sequences is not None:
        return (unsequenced(configs[0], configs[0].label), *configs[1:])
    return configs


def unsequenced(config: Config, label: str) -> Config:
    """The way without a case's own sequence of passes: OATest's oracle compares the two.

    The run that counts is then the first of what is compiled, which no earlier one has a part in.
    """
    own = (("passes", ()), ("counts_first", 1))
    return replace(config, label=label, settings=(*config.settings, *own))


def without_twins(configs: tuple[Config, ...], passes: tuple[str, ...]) -> tuple[Config, ...]:
    """The ways without others that differ from the baseline by a case's passes, if it has none."""
    if passes:
        return configs
    baseline, *others = configs
    return (baseline, *(way for way in others if unsequenced(way, baseline.label) != baseline))


def _configs_of(target: Target, format: str) -> tuple[Config, ...]:
    backend = find_backend(target.backend)
    graphs = backend.graphs_of(format)
    if graphs is not None:
        return (graphs.configs or backend.configs)(target)
    if format not in backend.formats:
        usual = find_format(format).target
        raise UserError(f"target {target}: runs no {format} programs; choose another, such as {usual}")
    own = backend.configs(target)
    name = backend.baseline
    if not name:
        return own
    first = find_backend(name).configs(Target(name))[0]
    return (replace(first, label=f"{name} {first.label}", backend=name), *own)


def job_of(case: Case, configs: tuple[Config, ...], **options: Any) -> Job:
    """The job that runs a case under each configuration, without repair."""
    known = {"format": case.format, "passes": case.passes, "loads_only": case.loads_only, **options}
    return Job(case.program, case.inputs, configs, case.external, earlier=case.earlier_shapes, **known)


REFEREE_CPU_SECONDS = 5.0

PLANNED_BYTES = 1 << 18
"""A program of thousands of nodes is larger, and planning its memory takes longer than running it."""

BRIEFLY = 4
"""Of the CPU seconds of a run, what `briefly` leaves: one in so many."""
GUARDED_TIMES = 4
"""How many times as long a guarded run may take."""

OPTIMISED_BYTES = 64 << 20
"""Of a larger program the optimised form is not asked for."""


class Executor:
    """Owns the sandboxes that the cases of one target and format run in, so close it.

    `configs` are the ways to run a case, the un-optimised baseline first. `forks` says that every test has a
    process of its own anyway.
    """

    def __init__(self, target: Target, *, format: str, limits: Limits, watch: Watch | None = None) -> None:
        self.target = target
        self.limits = limits
        self.backend = find_backend(target.backend)
        self.configs = configs_of(target, format)
        self.forks = self.backend.forks
        self.is_hurried = False
        self._thinning: tuple[tuple[str, Any], ...] = ()
        self._sandbox = Sandbox(
            target.backend,
            python=target.get("python") or None,
            limits=limits,
            renew_after=1 if self.forks else RENEW_AFTER,
            gpu=target.device.startswith("cuda"),
            watch=watch,
        )
        self._others: dict[tuple[str, str], Sandbox] = {}
        self._referee: Sandbox | None = None
        self._guarded: Sandbox | None = None

    def begin(self) -> None:
        """Start the target's sandbox without waiting for it."""
        self._sandbox.zygote()

    def close(self) -> None:
        """End the sandboxes."""
        for sandbox in self._sandboxes():
            sandbox.close()

    def hurry(self, wall_seconds: float) -> None:
        """Call a run a hang after this many seconds from now on, without a second run to be sure."""
        self.is_hurried = True
        wall = min(self.limits.wall_seconds, wall_seconds)
        self._sandbox.limits = replace(self.limits, wall_seconds=wall)

    @property
    def cpu_limit(self) -> float:
        """The CPU seconds that a run of the target may take now."""
        return self._sandbox.limits.cpu_seconds

    def briefly(self, format: str, *, may_hang: bool = False) -> AbstractContextManager[None]:
        """Within it a generated program of a language that runs quickly may take little at first.

        One that hangs costs a campaign as much as hundreds that do not; to be sure of it the judge gives it
        all its time once. One that `may_hang` without being at fault gets no more in any language.
        """
        is_brief = may_hang or language_of(format).runs_quickly
        return self.patiently(self.limits.cpu_seconds / BRIEFLY) if is_brief else nullcontext()

    @contextmanager
    def patiently(self, cpu_seconds: float) -> Iterator[None]:
        """Within it each run of the target may take this many CPU seconds, and as many times the wall's."""
        usual = self._sandbox.limits
        wall = usual.wall_seconds * cpu_seconds / usual.cpu_seconds
        self._sandbox.limits = replace(usual, cpu_seconds=cpu_seconds, wall_seconds=wall)
        try:
            yield
        finally:
            self._sandbox.limits = usual

    @contextmanager
    def quickly(self, *, plainly: bool = False) -> Iterator[None]:
        """Within it TIR programs share a process, and their arguments are not checked.

        With `plainly` LLVM does not optimise either: that takes most of what a TIR program costs.
        """
        self._thinning = (("thin", 1), *((("opt-level", 0),) if plainly else ()))
        try:
            yield
        finally:
            self._thinning = ()

    def runs(self, case: Case, configs: tuple[Config, ...], **job_options: Any) -> tuple[Run, ...]:
        """Run the case under each configuration, without judging and without repair."""
        return self.run(job_of(case, configs, **job_options))

    def guarded(self, case: Case, config: Config, poison: int, start: Phase = Phase.EXECUTE) -> Run:
        """Run the case in a way of the target itself that shows misuse of memory, fresh memory filled."""
        if self._guarded is None:
            limits = replace(self.limits, cpu_seconds=GUARDED_TIMES * self.limits.cpu_seconds)
            python = self.target.get("python") or None
            self._guarded = Sandbox(self.target.backend, python=python, limits=limits, guarded=True)
        return self._guarded.run(_poisoned(case, _with(config, {"guarded": 1}), poison, start), fresh=True)[0]

    def poisoned(self, case: Case, config: Config, poison: int, start: Phase = Phase.EXECUTE) -> Run:
        """Run the case with fresh memory filled by the C library, which costs no sandbox of its own."""
        return self._sandbox.run(_poisoned(case, config, poison, start), fresh=True)[0]

    def rerun(self, job: Job) -> tuple[Run, ...]:
        """Run another program in the un-optimised configuration; for a large one without a plan of memory."""
        config = self.configs[0]
        if len(job.program) > PLANNED_BYTES:
            config = _with(config, {"plainly_planned": 1})
        return self.run(replace(job, configs=(config,), earlier=()))

    def run(self, job: Job, *, fresh: bool = False) -> tuple[Run, ...]:
        """Run every config of a job where it belongs: a baseline of another backend in that one's sandbox.

        With `fresh` in a new process. Raises `OutOfTime` with the runs so far.
        """
        runs: list[Run] = []
        if self._thinning and language_of(job.format).runs_quickly and not fresh:
            thin = tuple(_with(config, dict(self._thinning)) for config in job.configs)
            job = replace(job, configs=thin, shared=True)
        for place, configs in groupby(job.configs, key=_place):
            part = replace(job, configs=tuple(configs))
            try:
                runs += self._sandbox_of(*place).run(part, fresh=fresh)
            except OutOfTime as error:
                raise OutOfTime((*runs, *error.runs)) from None
        return tuple(runs)

    def ask_referee(self, job: Job) -> Run:
        """The case in an independent implementation, under a small limit: it may be slow, or wrong itself."""
        name = "ort" if self.target.backend == "reference" else "reference"
        if self._referee is None:
            limits = replace(self.limits, cpu_seconds=REFEREE_CPU_SECONDS)
            self._referee = Sandbox(name, limits=limits)
        configs = find_backend(name).configs(Target(name))[:1]
        return self._referee.run(replace(job, configs=configs, loads_only=False, earlier=()))[0]

    def classify(self, run: Run) -> str:
        """Classify a run's message by the backend that made it; empty if the backend does not know it."""
        backend = find_backend(run.config.backend) if run.config.backend else self.backend
        return backend.classify(run)

    def cpu_seconds(self) -> float:
        """CPU time that the processes of all its sandboxes have used."""
        return sum(sandbox.cpu_seconds() for sandbox in self._sandboxes())

    @property
    def start_seconds(self) -> float:
        """CPU seconds that starting the target's framework took; 0 before it has been started."""
        return self._sandbox.start_seconds

    @property
    def release(self) -> str:
        """The version of the framework that runs the cases."""
        return str(self._sandbox.facts.get("version", ""))

    def optimised(self, case: Case | Job, config: Config) -> onnx.ModelProto | None:
        """The program as the backend's optimiser leaves it; None where that cannot be had."""
        is_plain = not case.external and len(case.program) <= OPTIMISED_BYTES
        if not self.backend.shows_optimised or not is_plain:
            return None
        program = base64.b64encode(case.program).decode("ascii")
        try:
            disabled = config.get("disabled_optimizers") or ()
            answer = self._sandbox.ask("optimised", program, config.get("level"), disabled)
        except SandboxError:
            return None
        return parse(base64.b64decode(answer)) if answer else None

    def describe(self, program: bytes, inputs: Mapping[str, Value]) -> Mapping[str, Any]:
        """The `types` of a graph's bindings, or the `error` that makes it ill-formed; nothing if it dies."""
        tensors = {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}
        types = {name: (value.dtype.name, value.shape) for name, value in tensors.items()}
        try:
            answer: Mapping[str, Any] = self._sandbox.ask("describe", program.decode(), types)
        except SandboxError:
            return {}
        return answer

    def vocabulary(self) -> frozenset[str] | None:
        """The ONNX operators that the target's own table has; None if it tells none."""
        return frozenset(self._sandbox.ask("vocabulary")) if self.backend.tells_operators else None

    def changed_by(self, program: bytes, names: Sequence[str]) -> list[str]:
        """List the target's passes that change a graph, each run alone; none if the worker dies."""
        try:
            answer: list[str] = self._sandbox.ask("changed_by", program.decode(), list(names))
        except SandboxError:
            return []
        return answer

    def release_under(self, python: str) -> str:
        """The version of the target's framework that another interpreter has."""
        return f"{self.backend.package} {self._sandbox_of('', python).facts.get('version', '')}"

    def _sandbox_of(self, name: str, python: str = "") -> Sandbox:
        """The sandbox of another backend, or of the target's own under another interpreter."""
        if not name and not python:
            return self._sandbox
        if (name, python) not in self._others:
            own = name or self.target.backend
            self._others[name, python] = Sandbox(own, python=python or None, limits=self.limits)
        return self._others[name, python]

    def _sandboxes(self) -> Iterator[Sandbox]:
        yield self._sandbox
        if self._referee is not None:
            yield self._referee
        if self._guarded is not None:
            yield self._guarded
        yield from self._others.values()


def _place(config: Config) -> tuple[str, str]:
    """The backend and the interpreter of a way, "" where they are the target's."""
    return config.backend, str(config.get("python") or "")


def _with(config: Config, settings: Mapping[str, Any]) -> Config:
    return replace(config, settings=tuple({**dict(config.settings), **settings}.items()))


def _poisoned(case: Case, config: Config, poison: int, start: Phase) -> Job:
    config = _with(config, {"poison": poison})
    return job_of(case, (config,), poison=poison, poisoned_from=start, loads_only=False)


def with_sequence(case: Case) -> Case:
    """The case with the sequence that its target asks for (`@passes=A,B`), which is then the case's own.

    Raises `UserError` for passes that the target does not have, or not in this order.
    """
    if case.target is None:
        return case
    target, names = _taken_apart(case.target)
    case = replace(case.with_passes(names), target=target) if names else case
    if complaint := misplaced(case.passes, target, case.format, case.program):
        raise UserError(f"target {target}: @passes={','.join(case.passes)}: {complaint}")
    return case


def split(target: Target) -> tuple[Target, tuple[str, ...]]:
    """The target without the sequence that it asks for, and that sequence; `UserError` as above."""
    target, names = _taken_apart(target)
    if complaint := misplaced(names, target, find_backend(target.backend).formats[0]):
        raise UserError(f"target {target}: @passes={','.join(names)}: {complaint}")
    return target, names


def _taken_apart(target: Target) -> tuple[Target, tuple[str, ...]]:
    asked = target.get(PASSES)
    if not asked:
        return target, ()
    if find_backend(target.backend).sequences is None:
        raise UserError(f"target {target}: runs no passes by name")
    return target.without_setting(PASSES), tuple(name for name in asked.split(",") if name)


def misplaced(passes: Sequence[str], target: Target, format: str, program: bytes = b"") -> str:
    """Say why the target cannot run these passes in this order; empty if it can, or has no such passes."""
    sequences = find_backend(target.backend).sequences
    if not passes or sequences is None:
        return ""
    return sequences.misplaced(passes, sequences.facts_of(format, program))
