"""TVM as a project; a module for each kind of program holds its part of a script."""

from oracles.verdict import Config, Phase, Run
from triage.projects import Installing, Project, Words
from triage.projects.tvm import onnx, relax, tir


def _words(config: Config) -> str:
    pipeline = config.get("pipeline")
    if not pipeline:
        return ""
    if not config.get("executor"):
        return f"with the `{pipeline}` pipeline of PrimFuncs, LLVM `-O{config.get('opt-level')}`"
    executor = "compiled VM" if config.get("executor") == "compiled" else "VM"
    how = f"the `{pipeline}` pipeline, LLVM `-O{config.get('opt-level')}`, {executor}"
    return f"with {how}{', for CUDA' if config.get('device') == 'cuda' else ''}"


def _labels(run: Run, may_be_reader: bool) -> tuple[str, ...]:
    """The labels that TVM's triage asks for: the frontend if it may be to blame, and the failing part."""
    level = "relax" if run.config.get("executor") else "tir"
    parts = {Phase.IMPORT: "frontend", Phase.OPTIMISE: f"{level}:transform", Phase.CODEGEN: "codegen:llvm"}
    return (
        "needs-triage",
        *(("frontend:onnx",) if may_be_reader and run.phase in (Phase.IMPORT, Phase.EXECUTE) else ()),
        parts.get(run.phase, level),
        "type:bug",
    )


PROJECT = Project(
    "tvm",
    package="apache-tvm",
    backends=("tvm",),
    companions=("apache-tvm-ffi",),
    devices=("cpu", "cuda"),
    template="issue_tvm.md.j2",
    issues="https://github.com/apache/tvm/issues",
    labels=_labels,
    import_script=onnx.IMPORTS,
    taken_along=("torch",),
    runners=(relax.RUNNER, tir.RUNNER, onnx.RUNNER),
    varied=("tvm",),
    words=Words(_words),
    installing=Installing(
        needs=("onnx",),
        pinned={(0, 27): ("apache-tvm-ffi==0.1.14.post0",)},
        built_with=("apache-tvm-ffi",),
    ),
)
