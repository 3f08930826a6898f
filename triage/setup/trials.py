"""Trying targets and the sandbox with one tiny model."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator

import numpy as np
from onnx import TensorProto, helper

from corpus.case import Case
from corpus.errors import UserError
from corpus.graphs.program import REF, Binding, Graph, GraphProgram, Input
from corpus.target import Target
from oracles.backends import RunsGraphs, backends
from oracles.judge import Judge
from oracles.sandbox.sandbox import Sandbox, SandboxError, describe_isolation
from triage.projects import project_of
from triage.setup.finding import Finding


def try_targets(core_packages: Collection[str]) -> Iterator[Finding]:
    """Try each target and device with one tiny model; those that run a core package on the CPU are core."""
    for name, backend in backends().items():
        for device in project_of(name).devices:
            target = Target(name, device)
            core = backend.PACKAGE in core_packages and device == "cpu"
            text, problem = _try_target(target)
            yield Finding(f"target {target}", not problem, problem or text, core)


def _try_target(target: Target) -> tuple[str, str]:
    """What a target does with tiny programs, and why it does not run them or gives a wrong result."""
    formats: tuple[str, ...] = ()
    try:
        with Judge(target) as judge:
            own = tuple(config for config in judge.configs if not config.backend)
            runs = judge.runs(_tiny_case(target), own)
            if isinstance(judge.backend, RunsGraphs):
                formats = judge.backend.FORMATS
                runs += tuple(run for name in formats for run in judge.runs(_tiny_graph(name), own))
    except (UserError, SandboxError) as error:
        return "", " ".join(str(error).split())[:160]
    failed = next((run for run in runs if not run.is_ok), None)
    if failed is not None:
        return "", " ".join(f"{failed.config.label}: {failed.status.value}: {failed.message}".split())[:160]
    right = all(np.array_equal(np.asarray(run.outputs["y"]), [0.0, 2.0]) for run in runs if run.outputs)
    done = (
        " and ".join(["runs a model", *(f"a {name} program" for name in formats)])
        if all(run.outputs for run in runs)
        else "compiles a model; there is no device to run it"
    )
    return done, "" if right else "gives a wrong result for Relu"


def _tiny_case(target: Target) -> Case:
    """`y = Relu(x)` of two floats."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "tiny", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return Case("onnx", model.SerializeToString(), {"x": np.array([-1, 2], np.float32)}, target)


RELU = {"torch": "torch.relu", "relax": "relax.nn.relu"}


def _tiny_graph(format: str) -> Case:
    """The same in another format."""
    main = Graph((Input("x", "float32", (2,)),), (Binding("y", RELU[format], ({REF: "x"},)),), ("y",))
    program = GraphProgram(format, main, facts={"main": "main"})
    return Case(format, program.to_bytes(), {"x": np.array([-1, 2], np.float32)})


def try_sandbox() -> Iterator[Finding]:
    """Which of the sandbox's protections are in force."""
    try:
        with Sandbox("ort") as sandbox:
            facts = dict(sandbox.facts)
    except (UserError, SandboxError) as error:
        yield Finding("sandbox", False, " ".join(str(error).split())[:160], core=True)
        return
    yield Finding("sandbox", True, "runs cases in workers of their own", core=True)
    for name, text in describe_isolation(facts).items():
        yield Finding(f"sandbox: {name}", text == "in force", text, core=False)
    compiler = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)
    text = compiler or "none: crashes are told by their signal alone"
    yield Finding("C compiler", compiler is not None, text, core=False)
