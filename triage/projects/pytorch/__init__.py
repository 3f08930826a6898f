"""PyTorch as a project; a module for each way to run a module of torch holds its part of a script."""

from __future__ import annotations

from dataclasses import replace

from oracles.verdict import Config, Run
from triage.projects import Installing, Project, Words
from triage.projects.pytorch import compiled, exported


def _words(config: Config) -> str:
    return exported.words(config) or compiled.words(config)


def _labels(run: Run, is_onnx: bool) -> tuple[str, ...]:
    if run.config.get("exporter"):
        return ("module: onnx", "topic: fuzzer")
    return ("oncall: pt2", "module: inductor", "topic: fuzzer")


def _optimising(config: Config) -> str:
    return "while it exports the module" if config.get("exporter") else "while it optimises the module"


PROJECT = Project(
    "pytorch",
    package="torch",
    backends=("torch", "inductor", "torch-onnx"),
    beside=("triton", "numpy"),
    devices=("cpu", "cuda"),
    template="issue_pytorch.md.j2",
    issues="https://github.com/pytorch/pytorch/issues",
    labels=_labels,
    of_fuzzers=("topic: fuzzer",),
    environment_tool="torch.utils.collect_env",
    runners=(compiled.RUNNER, replace(compiled.RUNNER, backends=("inductor",), slow=210.0), exported.RUNNER),
    varied=("torch",),
    words=Words(_words, optimising=_optimising),
    installing=Installing(needs=("onnx", "onnxruntime", "onnxscript"), is_huge=True),
)
