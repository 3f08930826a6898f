"""TVM: ONNX import, Relax passes, LLVM, and the Relax VM; a part in the worker, and a part in crux."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any, Callable, Iterator  # noqa: UP035 (Python 3.8)

from oracles.worker.tvm import passes as tvm_passes

if TYPE_CHECKING:
    from oracles.abilities import Backend

NAME = "tvm"
PACKAGE = "apache-tvm"
LIBRARIES = (
    ("tvm/lib/libtvm_compiler.so", "tvm"),
    ("tvm/lib/libtvm_runtime.so", ""),
    ("tvm_ffi/lib/libtvm_ffi.so", ""),
)
"""Of the compiler's library only TVM itself: most of it is LLVM."""

# In the worker


def load() -> str:
    """Import the framework (in the zygote) and compile one program, which leaves no thread behind.

    Before 0.27 TVM's own IR was built otherwise: such a release runs ONNX models alone.
    """
    import numpy as np

    with _without_torch():
        import tvm

        _load_own()
    run(_warm_up_program(), {"x": np.ones(1, "float32")}, {}, None, lambda phase: None)
    return str(tvm.__version__)


@contextlib.contextmanager
def _without_torch() -> Iterator[None]:
    """Within it torch is not there: `tvm_ffi` would import it, which takes twice as long as all of TVM."""
    is_free = "torch" not in sys.modules
    if is_free:
        sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        if is_free:
            del sys.modules["torch"]


def _load_own() -> None:
    """Import what runs programs of TVM's own IR; an old release `lacks` it."""
    import tvm

    import oracles.worker.tvm.watch

    try:
        import oracles.worker.tvm.build
        import oracles.worker.tvm.tir.batch  # noqa: F401 (here, so that no worker has to)
    except (ImportError, AttributeError) as error:
        if tuple(map(int, tvm.__version__.split(".")[:2])) >= SINCE:
            raise
        lacks.append(
            f"unsupported type of program: tvm {tvm.__version__} lacks what programs are built by ({error})"
        )


SINCE = (0, 27)
lacks: list[str] = []
"""Why the release that was loaded runs no programs of TVM's own IR; empty where it does."""


def _must_have_ir() -> None:
    if lacks:
        raise NotImplementedError(lacks[0])


def _warm_up_program() -> bytes:
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Exp", ["x"], ["y"])], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def run(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Import, optimise, build and run one ONNX model (bytes or a path); `enter` is told of each phase.

    Settings: `pipeline` (`default`, `zero`, `target`), `opt-level` of LLVM, `executor`, `device`, `run`;
    `passes` that run before the pipeline, `disabled_passes` that run nowhere; `well-formed` checks the module
    after each of them, `types` compares its types. With `run` off, and for a
    device that is not there, it ends with the code: no VM is made.
    """
    from oracles.worker.tvm.watch import configured, watched

    with watched(settings), configured(settings):
        return _run(_imported(program, settings), inputs, settings, outputs, enter)


def run_relax(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Optimise, build and run one Relax program, by the settings of `run`; `show=source` gives its text."""
    _must_have_ir()
    import tvm_ffi

    from oracles.worker.tvm.watch import configured, watched

    with watched(settings), configured(settings):
        if settings.get("show") == "source":
            from oracles.worker.tvm.documented import source

            return source(program, inputs)
        loaded = _relax_program(program, settings.get("via", ""))
        return _run(loaded, inputs, settings, outputs, enter, packed=tvm_ffi.Array)


def run_tir(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Build and run a module of PrimFuncs; with `batch` many of them together."""
    _must_have_ir()
    from oracles.worker.tvm.tir.batch import run_batch
    from oracles.worker.tvm.tir.run import run_program
    from oracles.worker.tvm.watch import configured, watched

    with watched(settings), configured(settings):
        if settings.get("batch"):
            return run_batch(program, inputs, settings, _target(settings), enter)
        return run_program(program, inputs, settings, outputs, _target(settings), enter)


def _run(
    loaded: tuple[Any, str, list[tuple[str, str]], list[str]],
    inputs: dict[str, Any],
    settings: dict[str, Any],
    outputs: Any,
    enter: Callable[[str], None],
    packed: Any = (),
) -> dict[str, Any]:
    """Run what has been loaded; one result of a `packed` class holds the outputs as its members."""
    import tvm
    from tvm import relax

    from oracles.worker import called
    from oracles.worker.tvm.watch import apply_passes

    module, main, taken, names = loaded
    enter("optimise")
    target = _target(settings)
    with target:
        module = apply_passes(module, settings)
        if settings.get("run") == "passes":
            return {}
        module = _optimised(module, settings.get("pipeline", "default"), target)
    enter("codegen")
    executable = relax.build(
        module, target, relax_pipeline=None, exec_mode=settings.get("executor", "bytecode")
    )
    device = tvm.cuda() if settings.get("device") == "cuda" else tvm.cpu()
    if settings.get("run") == "off" or not device.exist:
        return {}
    enter("execute")
    machine = relax.VirtualMachine(executable, device, "naive" if settings.get("guarded") else None)

    def prepare(given: dict[str, Any]) -> list[Any]:
        return [_to_tvm(given[name], kind, device) for name, kind in taken]

    found = called(lambda feeds: machine[main](*feeds), inputs, settings, enter, prepare)
    values = list(found) if len(names) > 1 or isinstance(found, packed) else [found]
    return {name: _from_tvm(values[names.index(name)]) for name in (names if outputs is None else outputs)}


def _imported(program: Any, settings: dict[str, Any]) -> tuple[Any, str, list[tuple[str, str]], list[str]]:
    """The module, the function to call, the names of what it takes, each with how, and of what it gives."""
    from tvm.relax.frontend.onnx import from_onnx

    from oracles.worker.onnx import fed_names, read_model

    model = read_model(program)
    try:
        imported = from_onnx(model, keep_params_in_input=False)
    except Exception as error:
        containers = {item.name for item in model.graph.input if not item.type.HasField("tensor_type")}
        if any(containers.intersection(node.input) for node in _nodes_reached(error)):
            raise NotImplementedError(NO_INPUT) from error  # it takes such an input for a tensor
        raise
    module = _written_and_read(imported, settings.get("via", ""))
    taken = [(name, "tensor") for name in fed_names(model.graph)]
    return module, "main", taken, [value.name for value in model.graph.output]


def _relax_program(program: bytes, via: str) -> tuple[Any, str, list[tuple[str, str]], list[str]]:
    """Load a Relax program as `_imported` does, and lift local functions, as every build requires."""
    import json

    from tvm import relax

    from oracles.worker.tvm.build import to_module
    from oracles.worker.tvm.read import has_local_functions
    from oracles.worker.tvm.types import kind_of

    document = json.loads(program)
    main = document["main"]
    taken = [(item[0], kind_of(item)) for item in main["inputs"]]
    module = _written_and_read(to_module(document), via)
    if has_local_functions(document):
        module = relax.transform.LambdaLift()(module)
    return module, document["facts"].get("main", "main"), taken, list(main["outputs"])


def open_program(name: str, content: str) -> dict[str, Any]:
    """A user's TVMScript or JSON as data, or an `error` in words."""
    from oracles.worker.limits import opened
    from oracles.worker.tvm.documented import capture

    return opened(capture, name, content)


def documented(path: str, content: str) -> dict[str, Any]:
    """Run a file of tests (in base64) and return the programs that they give to passes."""
    from oracles.worker.tvm import documented as relax_documented

    return relax_documented.documented(path, content)


def describe(program: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """The types that TVM infers in a `relax` program, or an `error`; of a `tir` program only that."""
    import json

    from oracles.worker.tvm import build as relax_build
    from oracles.worker.tvm.tir.run import describe as describe_loops

    document = json.loads(program)
    return relax_build.describe(program.encode()) if "main" in document else describe_loops(document)


def changed_by(program: str, names: list[str]) -> list[str]:
    """List the passes that change a program of the format `relax`, each alone after the passes it needs."""
    from oracles.worker.tvm import firing

    return firing.changed_by(program, names)


def vocabulary() -> list[str]:
    """The operators of ONNX models that its table has; some of com.microsoft it takes for ONNX's own."""
    from tvm.relax.frontend.onnx import onnx_frontend

    names = {*onnx_frontend._get_convert_map(), "If"}
    own = names - {"Attention", "EmbedLayerNormalization", "GridSample", "MatMulInteger16", "Unique"}
    return [*names, *(f"ai.onnx.ml.{name}" for name in names), *(f"com.microsoft.{name}" for name in own)]


def _written_and_read(module: Any, form: str) -> Any:
    """The module, or what is read back after it was written as `script` or `json`."""
    import tvm

    if form == "json":
        return tvm.ir.load_json(tvm.ir.save_json(module))
    if form == "script":
        return tvm.script.from_source(module.script(show_meta=True))
    return module


def _target(settings: dict[str, Any]) -> Any:
    import tvm

    has_llvm = tvm_passes.LLVM not in (settings.get("disabled_passes") or ())
    level = int(settings.get("opt-level", 3)) if has_llvm else 0
    host = {"kind": "llvm", "opt-level": level}
    if settings.get("device") == "cuda":
        return tvm.target.Target({"kind": "cuda", "arch": "sm_80"}, host=host)
    return tvm.target.Target(host)


def _optimised(module: Any, pipeline: str, target: Any) -> Any:
    """`default` is what `tvm.compile` does; `zero` fuses before that; `target` is the device's own."""
    from tvm import relax

    if pipeline == "zero":
        module = relax.get_pipeline("zero")(module)
    if pipeline == "target" or target.kind.name != "llvm":
        return relax.get_default_pipeline(target)(module)
    return relax.get_pipeline("default")(module)


NO_INPUT = "TVM takes no input of dtype string, sequence or optional"


def _to_tvm(given: Any, kind: str, device: Any) -> Any:
    from oracles.worker.onnx import to_array
    from oracles.worker.tvm.types import passed

    value = to_array(given)
    if isinstance(value, list) or value is None or value.dtype.kind in "OUS":
        raise NotImplementedError(NO_INPUT)
    if value.dtype.name.endswith("int4"):  # its tensors pack two in a byte, numpy's do not
        raise NotImplementedError(f"TVM takes no input of dtype {value.dtype.name} from numpy")
    return passed(value, kind, device)


def _from_tvm(value: Any) -> Any:
    """A tensor, a shape or a number (which stand for tensors of int64), or a sequence; None for all else."""
    import numpy as np
    from tvm_ffi import Array, Shape

    if hasattr(value, "numpy"):
        return value.numpy()
    if isinstance(value, (Shape, int)):
        return np.array(value, dtype="int64")
    return [_from_tvm(item) for item in value] if isinstance(value, Array) else None


def about(error: BaseException) -> tuple[str, str, dict[str, list[str] | None]]:
    """The operator that the importer was at, the result of that node, and the dims known of what led there.

    Neither the error's text nor the traceback tells.
    """
    operator, reached, at = "", "", ""
    for known in _locals_of(error, "_convert_operator"):
        operator = str(known.get("op_name", ""))
    for node in _nodes_reached(error):
        reached = node.op_type
        at = at or next((name for name in node.output if name), "")
    head = f"{REACHED}{reached}\n" if reached else ""
    head = f"Error converting operator {operator}\n" if operator else head
    return head, at, _dims_known(error)


def _dims_known(error: BaseException) -> dict[str, list[str] | None]:
    """The dims that the importer knows of results that lead to the node that it was at; None of no dims.

    Back from that node, up to the first results with dims that are too large to be sizes. Those that it has
    made constants of are left out.
    """
    known = next((each for each in _locals_of(error, "_construct_nodes") if "node" in each), None)
    if known is None:
        return {}
    makers = {name: node for node in known["graph"].node for name in node.output if name}
    found: dict[str, list[str] | None] = {}
    waiting = [known["node"]]
    while waiting:
        for name in waiting.pop(0).input:
            made = known["self"]._nodes.get(name)
            is_constant = not hasattr(made, "ty") or type(made).__name__.endswith(("Const", "Constant"))
            if name not in makers or name in found or is_constant:
                continue
            shape = getattr(getattr(made.ty, "shape", None), "values", None)
            dims = None if shape is None else [str(getattr(dim, "value", dim)) for dim in shape]
            found[name] = dims
            if dims is None or (len(dims) < 2 and all(dim.isdigit() for dim in dims)):
                waiting.append(makers[name])
    return found


def _nodes_reached(error: BaseException) -> list[Any]:
    """List the nodes that the importer was at, the outermost first, a body's node behind that of the body."""
    return [known["node"] for known in _locals_of(error, "_construct_nodes") if "node" in known]


def _locals_of(error: BaseException, function: str) -> list[dict[str, Any]]:
    """List what the frames of a function hold that an exception came through."""
    found, trace = [], error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_name == function:
            found.append(trace.tb_frame.f_locals)
        trace = trace.tb_next
    return found


REACHED = "reached operator "
"""What stands before an operator whose conversion has not begun."""

# In crux


def backend() -> Backend:
    """Describe this backend."""
    from oracles import tvm_log
    from oracles.abilities import Backend, Graphs

    return Backend(
        NAME,
        PACKAGE,
        __file__,
        tvm_log.configs,
        tvm_log.classify,
        tvm_log.tags,
        baseline="ort",  # what is wrong in TVM's least optimised way is wrong in all of them
        forks=True,
        calls_again=frozenset({"onnx"}),
        batches=frozenset({"tir"}),
        written_as=("script", "json"),
        tells_operators=True,
        checked_by="well-formed",
        typed_by="types",
        libraries=LIBRARIES,
        passes=tvm_log.DISABLING,
        sequences=tvm_log.sequences(),
        graphs=(
            Graphs(
                ("relax",),
                opens=("relax",),
                configs=tvm_log.configs_of_relax,
                referee="golden",
                asked="golden,passes",
            ),
            Graphs(("tir",), configs=tvm_log.configs_of_tir, asked="golden,passes"),
        ),
    )
