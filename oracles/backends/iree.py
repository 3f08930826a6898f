"""IREE on the CPU: ONNX models by torch-mlir's importer, and StableHLO; a part in the worker, one in crux."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Callable  # noqa: UP035 (Python 3.8)

if TYPE_CHECKING:
    from corpus.target import Target
    from oracles.abilities import Backend
    from oracles.verdict import Config, Run

NAME = "iree"
PACKAGE = "iree-base-compiler"
LIBRARIES = (("iree/compiler/_mlir_libs/libIREECompiler.so", "mlir::iree_compiler"),)
"""Of the compiler's library only IREE itself: most of it is LLVM and MLIR."""

STAGES = {"import": "input", "optimise": "stream", "codegen": "end"}
"""The phase of IREE's own pipeline that ends each of ours; `input` lowers the importer's operators."""

LEVELS = ("O3", "O2", "O1", "O0")
CODE = ("llvm-cpu", "vmvx")
"""What it makes code for: this machine's family of processors, or its own interpreter."""

_LACKS = """
AffineGrid Attention BitCast CausalConvWithState Col2Im ConcatFromSequence CumProd DFT DeformConv
Dropout ImageDecoder LinearAttention Loop LpPool MaxRoiPool MaxUnpool NegativeLogLikelihoodLoss
Optional OptionalGetElement OptionalHasElement RMSNormalization RegexFullMatch RoiAlign
RotaryEmbedding STFT Scan SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert
SequenceLength SequenceMap Shrink SoftmaxCrossEntropyLoss Softsign SplitToSequence StringConcat
StringNormalizer StringSplit SwiGLU Swish TensorScatter TfIdfVectorizer
"""
LACKS = frozenset(_LACKS.split())
"""The operators of ONNX that no lowering takes, or hardly a form of them."""
_NARROW = "string int2 uint2 int4 uint4 float4_e2m1fn float8_e8m0fnu int16 uint16 uint32 uint64"
NARROW = frozenset(_NARROW.split())
"""What its importer, its casts or numpy have no element type for."""

NO_INPUT = "IREE takes no input of dtype string, sequence, optional or map"

# In the worker


def load() -> str:
    """Import compiler and runtime, which start no thread as long as nothing is compiled; the version."""
    from importlib.metadata import version

    import iree.runtime  # noqa: F401
    from iree.compiler import api, ir
    from iree.compiler.extras import onnx_importer  # noqa: F401

    from oracles.worker.stablehlo import build  # noqa: F401

    ir.Context()
    api._initializeGlobalCL("crux", "--mlir-disable-threading")
    return version(PACKAGE)


def run(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Import, compile and run one ONNX model (bytes or a path) on the CPU.

    Settings: `level` (of `LEVELS`), `code` (of `CODE`).
    """
    import onnx

    from oracles.worker.onnx import fed_names, read_model

    model = read_model(program)
    names = fed_names(model.graph)
    values = [_checked(inputs[name]) for name in names]
    code = _compiled(_imported(model), settings, enter)
    enter("execute")
    results = _called(code, values)
    found = {
        value.name: _from_view(view, onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
        for value, view in zip(model.graph.output, results)  # noqa: B905 (Python 3.8)
    }
    return found if outputs is None else {name: found[name] for name in outputs}


def run_stablehlo(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Compile and run one module of StableHLO; `double` computes in float64, `show=source` gives its text."""
    from iree.compiler import ir

    from oracles.worker.stablehlo.build import prepared, source

    if settings.get("show") == "source":
        return source(ir, ir.Context(), program, inputs, bits=True)
    text, values, results = prepared(ir, ir.Context(), program, inputs, settings, outputs)
    code = _compiled(text, settings, enter, "stablehlo")
    enter("execute")
    views = _called(code, values)
    return {name: _from_view(view, dtype) for (name, dtype), view in zip(results, views)}  # noqa: B905


def open_program(name: str, content: str) -> dict[str, Any]:
    """A module's text (in base64) as data, or an `error` in words."""
    import base64

    from iree.compiler import ir

    from oracles.worker.stablehlo.read import capture

    return capture(ir, ir.Context(), base64.b64decode(content))


def describe(program: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """The types in a program of the format `stablehlo`, or an `error`."""
    from iree.compiler import ir

    from oracles.worker.stablehlo import build

    return build.describe(ir, ir.Context(), program)


def _imported(model: Any) -> str:
    """The module that IREE's own tool makes of a model, as text."""
    import onnx
    from iree.compiler import ir
    from iree.compiler.extras import onnx_importer

    model.graph.name = "main"
    info = onnx_importer.ModelInfo(onnx.shape_inference.infer_shapes(model, data_prop=True))
    module = info.create_module(context=ir.Context()).operation
    onnx_importer.NodeImporter.define_function(info.main_graph, module).import_all()
    return str(module.get_asm())


def _compiled(
    text: str, settings: dict[str, Any], enter: Callable[[str], None], dialect: str = "onnx"
) -> bytes:
    """The bytecode of a module, compiled stage by stage, so that an error tells of its phase."""
    import ctypes
    import tempfile

    from iree.compiler.api import Output, Session, Source

    session = Session()
    session.set_flags(
        "--iree-hal-target-device=local",
        f"--iree-hal-local-target-device-backends={settings.get('code', CODE[0])}",
        f"--iree-input-type={dialect}",
        "--iree-input-demote-f64-to-f32=false",
        f"--iree-opt-level={settings.get('level', LEVELS[0])}",
        "--iree-llvmcpu-target-cpu=generic",
    )
    invocation = session.invocation()
    library, handle = invocation._local_dylib, ctypes.c_void_p(invocation._inv_p)
    said = _listen(library, handle)
    good, start = invocation.parse_source(Source.wrap_buffer(session, text.encode() + b"\0")), "start"
    for phase, end in STAGES.items():
        if good:
            enter(phase)
            library.ireeCompilerInvocationSetCompileFromPhase(handle, start.encode())
            library.ireeCompilerInvocationSetCompileToPhase(handle, end.encode())
            good, start = invocation.execute(), end
    if not good:
        text = _in_short(said)
        raise (NotImplementedError if UNLOWERED.search(text) else RuntimeError)(text)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/code.vmfb"
        output = Output.open_file(path)
        invocation.output_vm_bytecode(output)
        output.keep()
        output.close()
        with open(path, "rb") as file:
            return file.read()


def _listen(library: Any, handle: Any) -> list[str]:
    """Collect the errors of an invocation, in the order in which they come."""
    import ctypes

    said: list[str] = []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)

    def hear(severity: int, text: int, size: int, _: Any) -> None:
        if severity == ERROR:
            said.append(ctypes.string_at(text, size).decode("utf-8", "replace"))

    library.crux_listener = callback(hear)  # the library keeps no reference to it
    enable = library.ireeCompilerInvocationEnableCallbackDiagnostics
    enable.argtypes = [ctypes.c_void_p, ctypes.c_int, callback, ctypes.c_void_p]
    enable(handle, 0, library.crux_listener, None)
    return said


UNLOWERED = re.compile(r"failed to legalize operation '(torch|math|arith)\.|unhandled torch type")
"""Its words for a form without a lowering, such as one of a dim that is not static."""

ERROR = 2
PLACE = re.compile(r"^(?:\S+:\d+:\d+|loc\([^)]*\)): ?", re.M)
DUMP = re.compile(r"see current operation|:? %[\w:]+ = ")
OPERATOR = re.compile(r'name = "(onnx\.\w+)"|: "(stablehlo\.\w+)"')


def _in_short(said: list[str]) -> str:
    """What diagnostics say, without their places and dumps, with the operator that they are about."""
    lines = []
    for text in said:
        operator = OPERATOR.search(text)
        line = " ".join(PLACE.sub("", DUMP.split(text)[0]).split())
        lines.append(f"{line} ({operator.group(1) or operator.group(2)})" if operator else line)
    return "\n".join(dict.fromkeys(lines)) or "the compiler fails without a diagnostic"


def vocabulary() -> list[str]:
    """The operators of ONNX models that it has a lowering for."""
    from onnx import defs

    return sorted({each.name for each in defs.get_all_schemas() if not each.domain} - LACKS)


def _checked(given: Any) -> Any:
    import numpy as np

    from oracles.worker.onnx import to_array

    value = to_array(given)
    if not isinstance(value, np.ndarray) or value.dtype.kind in "OUS":
        raise NotImplementedError(NO_INPUT)
    if value.dtype.name.endswith("int4"):
        raise NotImplementedError(f"IREE takes no input of dtype {value.dtype.name} from numpy")
    return value


def _called(code: bytes, values: list[Any]) -> list[Any]:
    """The buffer views that the function `main` returns."""
    import iree.runtime as rt

    config = rt.Config("local-sync")
    module = rt.VmModule.copy_buffer(config.vm_instance, code)
    context = rt.VmContext(config.vm_instance, modules=[*config.default_vm_modules, module])
    given, results = rt.VmVariantList(len(values)), rt.VmVariantList(1)
    for value in values:
        given.push_ref(_to_view(rt, config.device, value))
    context.invoke(module.lookup_function("main"), given, results)
    return [results.get_as_object(place, rt.HalBufferView) for place in range(len(results))]


ELEMENTS = {"bool": "BOOL_8", "bfloat16": "BFLOAT_16", "float8_e4m3fn": "FLOAT_8_E4M3_FN"}
ELEMENTS.update(float8_e4m3fnuz="FLOAT_8_E4M3_FNUZ", float8_e5m2="FLOAT_8_E5M2")
ELEMENTS.update(float8_e5m2fnuz="FLOAT_8_E5M2_FNUZ")


def _to_view(rt: Any, device: Any, value: Any) -> Any:
    """An array as a buffer of the element type that it is declared with, signs and all."""
    import numpy as np

    kind, bits = {"f": "FLOAT", "i": "SINT", "u": "UINT"}.get(value.dtype.kind, ""), 8 * value.dtype.itemsize
    element = getattr(rt.HalElementType, ELEMENTS.get(value.dtype.name, f"{kind}_{bits}"))
    whole = np.ascontiguousarray(value).reshape(value.shape)
    return device.allocator.allocate_buffer_copy(
        memory_type=rt.MemoryType.DEVICE_LOCAL,
        allowed_usage=rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING,
        device=device,
        buffer=whole.view(f"u{value.dtype.itemsize}") if value.dtype.kind not in "fiub" else whole,
        element_type=element,
    )


def _from_view(view: Any, declared: Any) -> Any:
    """The array of a result: IREE's integers have no sign, so that the declaration says which they are."""
    import numpy as np

    dtype = np.dtype(declared)
    data = np.frombuffer(bytes(view.map()), dtype=np.uint8)
    size = int(np.prod(view.shape, dtype=np.int64)) * dtype.itemsize
    return data[:size].view(dtype).reshape(tuple(view.shape))


# In crux


def configs(target: Target) -> tuple[Config, ...]:
    """All of its optimisation, then its least; or one way by `@opt=` and `@code=`."""
    from oracles.verdict import Config

    target.must_be_on(("cpu",), "crux runs IREE on the CPU only")
    chosen = (target.chosen("opt", LEVELS), target.chosen("code", CODE))
    is_chosen = target.get("opt") or target.get("code")
    ways = [chosen] if is_chosen else [chosen, ("O0", CODE[0])]
    return tuple(Config(f"{code} {level}", (("level", level), ("code", code))) for level, code in ways)


def graph_configs(target: Target) -> tuple[Config, ...]:
    """For StableHLO its interpreter in jaxlib first; without jaxlib IREE's own at the least level."""
    from oracles.backends import xla
    from oracles.extras import is_installed
    from oracles.verdict import Config

    if is_installed(xla.PACKAGE):
        return (Config("interpreter", xla.INTERPRETED, backend=xla.NAME), *configs(target))
    plain = Config("vmvx O0", (("level", "O0"), ("code", "vmvx")))
    return (plain, *(way for way in configs(target) if way.settings != plain.settings))


UNSUPPORTED = re.compile(
    UNLOWERED.pattern + r"|[Uu]nsupported|not supported"
    r"|takes no input of|[Uu]nimplemented|[Nn]ot (yet )?implemented|SIGSEGV.* in onnx_cpp2py_export"
)
"""Its own words for what it lacks; and onnx's inference of shapes is no part of it."""


def classify(run: Run) -> str:
    """Return `unsupported` for an operator or element type without a lowering, by the compiler's words."""
    return "unsupported" if not run.is_ok and UNSUPPORTED.search(run.message) else ""


def backend() -> Backend:
    """Describe this backend."""
    from oracles.abilities import Backend, Graphs
    from oracles.backends import xla
    from oracles.extras import is_installed

    double = (("interpret", 1), ("double", 1))
    stablehlo = Graphs(
        ("stablehlo",),
        double=double,
        opens=("stablehlo",),
        configs=graph_configs,
        referee=xla.NAME if is_installed(xla.PACKAGE) else "",
    )
    return Backend(
        NAME,
        PACKAGE,
        __file__,
        configs,
        classify,
        baseline="ort",  # its least level optimises as well
        forks=True,
        tells_operators=True,
        lacks=NARROW,
        libraries=LIBRARIES,
        graphs=(stablehlo,),
    )
