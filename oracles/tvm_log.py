"""What TVM says of its own passes in a log, and in the words of a refusal."""

import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from corpus.target import Target
from oracles.abilities import Passes, Sequences, language_of
from oracles.verdict import Config, Phase, Run, Status
from oracles.worker.tvm import passes as tvm_passes
from oracles.worker.tvm.passes import AT_WILL, LLVM, OPTIONAL
from oracles.worker.tvm.sequences import OPTIONS, config_of, is_option

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


DISABLING = Passes(
    DISABLED_BY,
    fired,
    suspects,
    optimizers,
    replaced=replaced,
    may_have_fired=fired,
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
    """`importer-limit` for an error by which the importer says that it does not handle a form yet."""
    is_error = run.status is Status.EXCEPTION and run.phase is Phase.IMPORT
    return ("importer-limit",) if is_error and LIMIT.search(run.message) else ()


PIPELINES = ("default", "zero", "target")
EXECUTORS = ("bytecode", "compiled")
LEVELS = ("0", "1", "2", "3")


def configs(target: Target) -> tuple[Config, ...]:
    """The default compilation, then others with some settings changed.

    Settings: `@pipeline=default|zero|target`, `@opt-level=0…3` of LLVM, `@executor=bytecode|compiled`; if any
    of them is given, that configuration only. `@run=off` compiles only.
    """
    target.must_be_on(("cpu", "cuda"), "tvm runs on cpu and cuda")
    chosen = (
        target.chosen("pipeline", PIPELINES),
        target.chosen("opt-level", LEVELS[::-1]),
        target.chosen("executor", EXECUTORS),
    )
    ways = [chosen]
    if not any(target.get(key) for key in WAYS) and target.device == "cpu":
        ways += OTHER_WAYS
    return _written_out(target, ways)


OTHER_WAYS = (("zero", "0", "compiled"), ("target", "3", "bytecode"), ("default", "0", "compiled"))
GRAPH_WAYS = (("zero", "3", "bytecode"), ("default", "3", "compiled"), ("target", "3", "bytecode"))


LOOP_PIPELINES = ("default", "least")
LEAST_WAY = ("least", 0)
LOOP_WAYS = (("default", 3), LEAST_WAY, ("default", 0))
"""The ways of a module of PrimFuncs: `least` runs the case's own passes and lowers, and that alone."""


def configs_of_relax(target: Target) -> tuple[Config, ...]:
    """The configurations of a Relax module: without optimisers first, then with them.

    The first does only what any compilation must do, without LLVM's optimiser. The settings are those of
    `configs`.
    """
    own = configs(target)
    ways = own if any(target.get(key) for key in WAYS) else _written_out(target, list(GRAPH_WAYS))
    (baseline,) = _written_out(target, [("default", "0", "bytecode")])
    return (baseline, *(way for way in ways if way != baseline))


def configs_of_tir(target: Target) -> tuple[Config, ...]:
    """The configurations of a module of PrimFuncs, by the settings of `configs` but for an executor.

    The baseline lowers, no more, and without the case's own passes, which the judge leaves out there.
    """
    pipeline = target.chosen("pipeline", LOOP_PIPELINES)
    level = int(target.chosen("opt-level", LEVELS[::-1]))
    asked = any(target.get(key) for key in WAYS)
    baseline = _loop_way(target, *LEAST_WAY)
    ways = [_loop_way(target, *way) for way in (((pipeline, level),) if asked else LOOP_WAYS)]
    return (baseline, *(_apart(way, baseline) for way in ways))


def _apart(way: Config, baseline: Config) -> Config:
    """The way under a label of its own: by the baseline's settings it runs the case's passes first."""
    return replace(way, label=f"{way.label} with its passes") if way == baseline else way


def _loop_way(target: Target, pipeline: str, level: int) -> Config:
    return Config(f"{pipeline} -O{level}", (("pipeline", pipeline), ("opt-level", level), *_asked(target)))


def _asked(target: Target) -> tuple[tuple[str, str], ...]:
    """What a target says of every way: its device, and whether what is compiled runs."""
    device = (("device", target.device),) if target.device != "cpu" else ()
    return (*device, ("run", "off")) if target.chosen("run", ("on", "off")) == "off" else device


WAYS = ("pipeline", "opt-level", "executor")


def _written_out(target: Target, ways: list[tuple[str, str, str]]) -> tuple[Config, ...]:
    """Each way as a configuration on the target's device."""
    return tuple(
        Config(
            f"{pipeline} -O{level} {executor}",
            (("pipeline", pipeline), ("opt-level", int(level)), ("executor", executor), *_asked(target)),
        )
        for pipeline, level, executor in ways
    )


LOOP_PASSES = ("tirx.", "s_tir.")
"""How the names of passes over PrimFuncs begin, and of the options of their context."""

SEQUENCEABLE = tuple(name for name in tvm_passes.PASSES if name not in tvm_passes.UNDRAWN)


def code_of_least() -> tuple[str, ...]:
    """The expressions that make the passes of the pipeline `least`."""
    return tuple(f"tvm.{code}" for code in tvm_passes.LEAST)


def facts_of(format: str, program: bytes) -> frozenset[str]:
    """What holds of a program at the start: it has operators, where its language says nothing else."""
    facts = language_of(format).facts
    return tvm_passes.START if facts is None else facts(program)


def sequences_on_loops(facts: frozenset[str]) -> Sequences:
    """The sequences of passes for modules of PrimFuncs of which these facts hold."""
    all_of_them = sequences()
    names = tuple(name for name in all_of_them.names if name.startswith(LOOP_PASSES))
    fitting = partial(tvm_passes.repaired, facts=facts)
    return replace(all_of_them, names=names, seldom=tvm_passes.IDLE_ON_LOOPS, repaired=fitting)


def misplaced(names: Iterable[str], facts: frozenset[str] = tvm_passes.START) -> str:
    """Say why these passes cannot stand in this order; without a Relax function only passes of loops can."""
    names = tuple(names)
    others = [name for name in names if not name.startswith(LOOP_PASSES)]
    options = [name for name in names if is_option(name)]
    if options and "operators" in facts:
        return f"{options[0]} is an option for modules of PrimFuncs alone"
    if others and "operators" not in facts:
        return f"{others[0]} works on Relax functions, and there is none"
    return tvm_passes.misplaced(names, facts)


def code_of(names: Iterable[str]) -> tuple[str, ...]:
    """The expressions that make these passes; options among them are none."""
    return tuple(tvm_passes.pass_of(name).code for name in names if not is_option(name))


def code_of_helpers(names: Iterable[str]) -> str:
    """The functions that the expressions of these passes call, as they stand in the worker's half."""
    used = dict.fromkeys(tvm_passes.pass_of(name).by for name in names if not is_option(name))
    text = Path(tvm_passes.__file__).with_name("prepared.py").read_text()
    parts = [re.sub(r" +# noqa.*", "", part.strip()) for part in text.split("\n\n\n")]
    found = "\n\n\n".join(part for part in parts if any(f"def {name}(" in part for name in used if name))
    return re.sub(r"\) -> Any:\n", "):\n", re.sub(r"(\w+): (Any|int|str)\b", r"\1", found))


def options_of(names: Iterable[str]) -> dict[str, Any]:
    """The configuration of the pass context that the options among these make."""
    return config_of(names)


def sequences() -> Sequences:
    """What sequences of passes are made of, and which orders there are."""
    return Sequences(
        SEQUENCEABLE,
        (*tvm_passes.ASKED_ABOUT, *sorted(tvm_passes.UNDRAWN)),
        tvm_passes.SELDOM,
        facts_of,
        misplaced,
        tvm_passes.completed,
        sequences_on_loops,
        OPTIONS,
        tvm_passes.LOSSY,
    )
