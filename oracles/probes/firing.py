"""Which passes of a target's optimiser change a program, told by its log; nothing is executed."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import Self

import onnx

from corpus.errors import UserError
from corpus.formats.onnx import parse
from corpus.onnx.measure import measure
from corpus.target import Target
from oracles.backends import find_backend
from oracles.sandbox.sandbox import Job, Sandbox
from oracles.verdict import Config, Limits, Run

_LIMITS = Limits()


class Firing:
    """Asks one target's optimiser, in a sandbox of its own; a context manager.

    A pass that the target's backend runs by name is asked by running it alone, after what it needs.
    """

    def __init__(self, target: Target, *, limits: Limits = _LIMITS) -> None:
        backend = find_backend(target.backend)
        if backend.passes is None or backend.passes.telling is None:
            raise UserError(f"target {target}: its log does not tell which pass changed a program")
        self._passes, self._telling = backend.passes, backend.passes.telling
        self._sequences = backend.sequences
        self.target = target
        self.config = _without_execution(backend_configs(target))
        self._sandbox = Sandbox(target.backend, python=target.get("python") or None, limits=limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the sandbox."""
        self._sandbox.close()

    def passes(self, program: bytes) -> tuple[str, ...]:
        """The passes that change the program, in order; none where it does not compile.

        Of passes of which the log tells only together, each is asked by itself.
        """
        run = self._run(program, self.config)
        if not run.is_ok:
            return ()
        operators = frozenset(measure(parse(program)).ops)
        names = self._passes.likely(self._telling.may_have_fired(run), operators)
        return tuple(name for name in names if not self._telling.told_with(name) or self.fires(program, name))

    def fires(self, program: bytes, name: str) -> bool:
        """Whether this pass changes the program, which compiles."""
        if self._sequences is not None and name in self._sequences.names:
            return self._fires_by_name(program, name, self._sequences.repaired([name]))
        config = self._passes.without(self.config, self._telling.told_with(name))
        run = self._run(program, config)
        return run.is_ok and self._telling.has_fired(run, name)

    @cached_property
    def commonplace(self) -> frozenset[str]:
        """The passes that change a program of a single operator, which is to say any program."""
        x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in "xy")
        graph = onnx.helper.make_graph([onnx.helper.make_node("Exp", ["x"], ["y"])], "g", [x], [y])
        opsets = [onnx.helper.make_opsetid("", 17)]
        program: bytes = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
        return frozenset(self.passes(program))

    def _fires_by_name(self, program: bytes, name: str, sequence: tuple[str, ...]) -> bool:
        alone = replace(self.config, settings=(*self.config.settings, ("run", "passes")))
        run = self._run(program, alone, sequence)
        return run.is_ok and self._telling.has_fired(run, name)

    def _run(self, program: bytes, config: Config, sequence: tuple[str, ...] = ()) -> Run:
        job = Job(program, {}, (config,), outputs=(), collect_log=True, passes=sequence)
        return self._sandbox.run(job)[0]


def backend_configs(target: Target) -> Config:
    """The configuration in which a target optimises as it does for its users."""
    configs = find_backend(target.backend).configs(target)
    return configs[1] if configs[0].get("level") == "none" else configs[0]


def _without_execution(config: Config) -> Config:
    """Add the setting by which a backend stops before execution, if it has one."""
    if config.get("pipeline") is None:
        return config
    return Config(config.label, (*config.settings, ("run", "off")))
