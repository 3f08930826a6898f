"""ONNX Runtime: a part that runs in the worker (Python 3.8, numpy, onnxruntime), and a part in crux."""

from __future__ import annotations

import base64
import ctypes
import os
import re
import tempfile
from typing import TYPE_CHECKING, AbstractSet, Any, Callable, Iterable  # noqa: UP035 (Python 3.8)

if TYPE_CHECKING:
    from corpus.target import Target
    from oracles.abilities import Backend
    from oracles.run import Config, Run

NAME = "ort"
PACKAGE = "onnxruntime"
LIBRARIES = (("onnxruntime/capi/onnxruntime_pybind11_state*.so", ""),)
DISABLED_BY = '`disabled_optimizers=["{}"]` of `InferenceSession`'

# In the worker

MOST_THREADS = 64
"""More threads than this a sandbox does not let a worker start."""

LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}

ELEMENTS = {
    "bool": (9, "tensor(bool)"),
    "float32": (1, "tensor(float)"),
    "float64": (11, "tensor(double)"),
    "float16": (10, "tensor(float16)"),
    "int8": (3, "tensor(int8)"),
    "int16": (5, "tensor(int16)"),
    "int32": (6, "tensor(int32)"),
    "int64": (7, "tensor(int64)"),
    "uint8": (2, "tensor(uint8)"),
    "uint16": (4, "tensor(uint16)"),
    "uint32": (12, "tensor(uint32)"),
    "uint64": (13, "tensor(uint64)"),
    "str": (8, "tensor(string)"),
    "bfloat16": (16, "tensor(bfloat16)"),
    "float8_e4m3fn": (17, "tensor(float8e4m3fn)"),
    "float8_e4m3fnuz": (18, "tensor(float8e4m3fnuz)"),
    "float8_e5m2": (19, "tensor(float8e5m2)"),
    "float8_e5m2fnuz": (20, "tensor(float8e5m2fnuz)"),
    "uint4": (21, "tensor(uint4)"),
    "int4": (22, "tensor(int4)"),
    "float4_e2m1fn": (23, "tensor(float4e2m1)"),
    "float8_e8m0fnu": (24, "tensor(float8e8m0)"),
    "uint2": (25, "tensor(uint2)"),
    "int2": (26, "tensor(int2)"),
}
"""Element types by their names in numpy or ml_dtypes: ONNX's number and onnxruntime's text."""

WIDTHS = {"uint4": 4, "int4": 4, "float4_e2m1fn": 4, "uint2": 2, "int2": 2}
"""Bits of the types that are packed several to a byte."""

CODES = {name: code for name, (code, _) in ELEMENTS.items()}
NAMES = {code: name for name, code in CODES.items()}
STRANGE = frozenset(list(ELEMENTS)[list(ELEMENTS).index("bfloat16") :])
STRANGE_TYPES = frozenset(ELEMENTS[name][1] for name in STRANGE)

core: Any = None


def load() -> str:
    """Import the framework (in the zygote) and warm it up; its version."""
    global core
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state

    core = onnxruntime_pybind11_state
    onnxruntime.set_default_logger_severity(4)
    ones = _numpy().ones(1, "float32")
    run(small_model("Neg", {"x": (1, "tensor")}), {"x": ones}, {}, None, lambda phase: None)
    return str(onnxruntime.__version__)


def run(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Load, initialise and run one model (bytes or a path); `enter` is told of each phase when it begins.

    Settings: `level` (of `LEVELS`), `disabled_optimizers`, `providers`, `threads`, `log`. What fails before
    the first optimiser can have run is of the import.
    """
    session = core.InferenceSession(session_options(settings), program, isinstance(program, str), False)
    if settings.get("level") != "none":
        enter("optimise")
    providers = available(settings.get("providers") or ["CPUExecutionProvider"])
    session.initialize_session(
        providers, [{} for _ in providers], set(settings.get("disabled_optimizers") or ())
    )
    # the public class asks at once where the outputs lie, and fails where the optimiser has removed one
    getattr(session, "output_meminfos", None)
    enter("execute")
    BORROWED.clear()
    types = {node.name: node.type for node in session.outputs_meta}
    wanted = list(types if outputs is None else outputs)
    if not wanted:
        return {}  # a session refuses to run for nothing
    if is_plain(inputs.values(), [types.get(name, "") for name in wanted]):
        values = session.run(wanted, inputs, None)
    else:
        feeds = {name: to_ortvalue(value) for name, value in inputs.items() if value is not None}
        values = [from_ortvalue(value) for value in session.run_with_ort_values(feeds, wanted, None)]
    return {name: values[index] for index, name in enumerate(wanted)}


def available(providers: list[str]) -> list[str]:
    """The providers, which onnxruntime would leave out without a word when its build lacks them."""
    for name in providers:
        if name not in core.get_available_providers():
            has = ", ".join(core.get_available_providers())
            raise RuntimeError(f"{name} is not available in this build of onnxruntime, which has {has}")
    return list(providers)


def session_options(settings: dict[str, Any]) -> Any:
    """The options of a session with these settings."""
    options = core.SessionOptions()
    level = LEVELS[settings.get("level", "all")]
    options.graph_optimization_level = getattr(core.GraphOptimizationLevel, level)
    options.intra_op_num_threads = int(settings.get("threads") or 1)
    options.inter_op_num_threads = 1
    options.log_severity_level = 0 if settings.get("log") else 4
    return options


def optimised(program: str, level: str, disabled: Iterable[str] = ()) -> str:
    """The program (base64, as is the answer) as this level leaves it; nothing where that fails.

    Passes that are `disabled` have no part in it.
    """
    options = session_options({"level": level})
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "optimised.onnx")
        options.optimized_model_filepath = path
        try:
            session = core.InferenceSession(options, base64.b64decode(program), False, False)
            session.initialize_session(["CPUExecutionProvider"], [{}], set(disabled))
        except Exception:  # the framework's failure: then there is no evidence of this kind
            return ""
        with open(path, "rb") as file:
            return base64.b64encode(file.read()).decode("ascii")


# Values that numpy cannot hold

BORROWED: list[Any] = []
"""Arrays whose memory the values of this run use: onnxruntime does not keep them alive itself."""


def is_plain(inputs: Iterable[Any], types: list[str]) -> bool:
    """Whether numpy can hold every input and output, so that the usual call does."""
    return not any(map(_has_bits, inputs)) and not any(text in STRANGE_TYPES for text in types)


def _has_bits(value: Any) -> bool:
    return isinstance(value, tuple) or (isinstance(value, list) and any(map(_has_bits, value)))


def to_ortvalue(value: Any) -> Any:
    """What the interface of this release cannot make of an array is made by a small model of its own."""
    np = _numpy()
    if isinstance(value, list):
        return _sequence(value)
    name, data = value if isinstance(value, tuple) else (value.dtype.name, value)
    if name in WIDTHS:
        data = pack(data, WIDTHS[name])
    if name != "object" and hasattr(core.OrtValue, "ortvalue_from_numpy_with_onnx_type"):
        BORROWED.append(np.require(data, requirements="C"))
        return core.OrtValue.ortvalue_from_numpy_with_onnx_type(BORROWED[-1], CODES[name])
    return run_small(small_model("", {}, constant=(name, data)), {})


def _sequence(items: list[Any]) -> Any:
    values = {f"x{index}": to_ortvalue(item) for index, item in enumerate(items)}
    if not values:
        return run_small(small_model("SequenceEmpty", {}), {})
    kinds = {name: (value.element_type(), "tensor") for name, value in values.items()}
    return run_small(small_model("SequenceConstruct", kinds), values)


def from_ortvalue(value: Any) -> Any:
    """An array, a list, or (type, bits) for the types that numpy cannot hold, read where the value lies."""
    np = _numpy()
    if not value.has_value():
        return None
    if value.is_tensor_sequence():
        return _items(value)
    name = NAMES[value.element_type()]
    if name not in STRANGE:
        return value.numpy()
    shape = tuple(value.shape())
    count = int(np.prod(shape))
    width = WIDTHS.get(name, 16 if name == "bfloat16" else 8)
    raw = np.frombuffer(
        ctypes.string_at(value.data_ptr(), -(-count * width // 8)) if count else b"", dtype="uint8"
    )
    if name in WIDTHS:
        raw = unpack(raw, width, count)
    return name, raw.view("uint16" if name == "bfloat16" else "uint8").reshape(shape)


def _items(value: Any) -> list[Any]:
    np = _numpy()
    code = value.element_type()
    count = int(run_small(small_model("SequenceLength", {"x": (code, "sequence")}), {"x": value}).numpy())
    at = small_model("SequenceAt", {"x": (code, "sequence"), "i": (CODES["int64"], "tensor")})
    places = (to_ortvalue(np.array(index, dtype="int64")) for index in range(count))
    return [from_ortvalue(run_small(at, {"x": value, "i": place})) for place in places]


def pack(data: Any, width: int) -> Any:
    """Several elements to a byte, the first in the low bits; the shape stays, the rest is unused."""
    np = _numpy()
    per_byte = 8 // width
    flat = np.zeros(-(-data.size // per_byte) * per_byte, dtype="uint8")
    flat[: data.size] = data.reshape(-1) & ((1 << width) - 1)
    packed = np.zeros(data.size, dtype="uint8")
    groups = flat.reshape(-1, per_byte)
    packed[: len(groups)] = sum(groups[:, place] << (place * width) for place in range(per_byte))
    return packed.reshape(data.shape)


def unpack(raw: Any, width: int, count: int) -> Any:
    """The elements of a few bits each that are packed into bytes."""
    np = _numpy()
    places = [(raw >> (place * width)) & ((1 << width) - 1) for place in range(8 // width)]
    return np.stack(places, axis=1).reshape(-1)[:count].copy()


# Small models, encoded by hand: the worker has no `onnx`


def run_small(program: bytes, feeds: dict[str, Any]) -> Any:
    """The first result of a small model, un-optimised."""
    session = core.InferenceSession(session_options({"level": "none"}), program, False, False)
    session.initialize_session(["CPUExecutionProvider"], [{}], set())
    return session.run_with_ort_values(feeds, ["y"], None)[0]


def small_model(operator: str, inputs: dict[str, tuple[int, str]], *, constant: Any = None) -> bytes:
    """`y = operator(inputs…)`, or `y` a constant (type name, array).

    An input is (element type, `tensor` or `sequence`).
    """
    graph = _field(2, b"g") + _field(12, _field(1, b"y"))
    if constant:
        graph += _field(5, _tensor(*constant) + _field(8, b"y"))
    else:
        operands = b"".join(_field(1, name.encode()) for name in inputs)
        graph += _field(1, operands + _field(2, b"y") + _field(4, operator.encode()))
    for name, (code, kind) in inputs.items():
        tensor = _field(1, _number(1, code))
        kind_of = tensor if kind == "tensor" else _field(4, _field(1, tensor))
        graph += _field(11, _field(1, name.encode()) + _field(2, kind_of))
    return _number(1, 8) + _field(7, graph) + _field(8, _number(2, 14))


def _tensor(name: str, data: Any) -> bytes:
    """A TensorProto without its name."""
    dims = b"".join(_number(1, size) for size in data.shape)
    if name != "object":
        return dims + _number(2, CODES[name]) + _field(9, data.tobytes())
    texts = (_field(6, text.encode("utf-8", "surrogatepass")) for text in data.reshape(-1))
    return dims + _number(2, CODES["str"]) + b"".join(texts)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    more = value >> 7
    return bytes([value & 127 | (128 if more else 0)]) + (_varint(more) if more else b"")


def documented(path: str, content: str) -> dict[str, Any]:
    """The models that the tests of a file (in base64) make; needs `onnx`, and runs the file's code."""
    from oracles.in_worker.onnx import documented as onnx_documented

    return onnx_documented.documented(path, content)


def tables() -> list[list[Any]]:
    """Which kernels there are: [domain, operator, provider, first opset, last opset, {parameter: types}]."""
    rows = []
    for kernel in core.get_all_opkernel_def():
        start, end = kernel.version_range
        types = {name: list(found) for name, found in kernel.type_constraints.items()}
        rows.append([kernel.domain, kernel.op_name, kernel.provider, start, end, types])
    return rows


def _numpy() -> Any:
    import numpy

    return numpy


# In crux


def configs(target: Target) -> tuple[Config, ...]:
    """Un-optimised, the level of `@opt=` (all), then the lower ones.

    Settings: `@opt=LEVEL`, `@threads=N` (one within an operator), `@disabled_optimizers=NAME,NAME`.
    """
    from corpus.errors import UserError
    from oracles.run import Config

    order = ("all", "layout", "extended", "basic")
    level = target.get("opt", "all")
    if level not in order:
        raise UserError(f"target {target}: @opt= is one of {', '.join(order)}")
    threads = target.get("threads", "1")
    is_number = threads.isascii() and threads.isdigit() and len(threads) < 5
    if not is_number or not 1 <= int(threads) <= MOST_THREADS:
        raise UserError(f"target {target}: @threads= is a number from 1 to {MOST_THREADS}")
    lower = [name for name in order[order.index(level) + 1 :] if name != "layout"]
    shared: tuple[tuple[str, str | int | tuple[str, ...]], ...] = (
        ("providers", provider_names(target.device)),
        ("threads", int(target.get("threads", "1"))),
        ("disabled_optimizers", tuple(name for name in target.get("disabled_optimizers").split(",") if name)),
    )
    return tuple(Config(name, (("level", name), *shared)) for name in ("none", level, *reversed(lower)))


PROVIDERS = {
    "cuda": "CUDA",
    "tensorrt": "Tensorrt",
    "dnnl": "Dnnl",
    "openvino": "OpenVINO",
    "xnnpack": "Xnnpack",
}


def provider_names(device: str) -> tuple[str, ...]:
    """The execution providers of a target's device, in order of preference."""
    if device == "cpu":
        return ("CPUExecutionProvider",)
    name = PROVIDERS.get(device, device).removesuffix("ExecutionProvider")
    return (f"{name}ExecutionProvider", "CPUExecutionProvider")


CLASSES = (
    (
        "out-of-memory",
        (
            r"std::bad_alloc",
            r"Failed to allocate memory",
        ),
    ),
    ("unavailable", (r"is not available in this build of onnxruntime",)),
    (
        "unsupported",
        (
            r"\bNOT_IMPLEMENTED\b",
            r"Could not find an implementation for",
            r"No Op registered for",
            r"is not a registered function/op",
            r"ONNX Runtime only \*guarantees\* support",
            r"Unsupported model IR version",
            r"is not currently registered or supported",
            r"Invalid tensor data type \d+",
            r"is not available in this build",
            r"Unknown Provider Type",
            r"\bnot (yet )?supported\b",
        ),
    ),
    (
        "invalid-input",
        (
            r"Integer (division|modulo) by zero",
            r"Divide by zero",
            r"indices element out of data bounds",
            r"Out of range value in index tensor",
            r"invalid index",
            r"(index|Index value|position).{0,40}(out of (bounds|range)|is out of)",
            r"Got invalid dimensions for input",
            r"Invalid rank for input",
            r"Unexpected input data type",
            r"Invalid input name",
            r"Missing Input",
            # a kernel's own checks of its inputs and attributes, where onnx's checker has none
            r"INVALID_ARGUMENT : Non-zero status code returned while running",
        ),
    ),
)
"""What messages say of themselves, in this order."""

PATTERNS = tuple((name, re.compile("|".join(texts))) for name, texts in CLASSES)
NO_KERNEL = re.compile(r"Could not find an implementation for (\w+)\(|Failed to find kernel for ([\w.]+?)\(")


def classify(run: Run) -> str:
    """What a failed run says of itself: "" when it may be a bug.

    Of an optimised run whose baseline works, "unsupported" is a bug all the same: the optimiser made the
    node that has no kernel.
    """
    if run.is_ok:
        return ""
    return next((name for name, pattern in PATTERNS if pattern.search(run.message)), "")


# The optimiser's passes

RULES = {
    "Level1_RuleBasedTransformer": {
        "EliminateIdentity": "Identity",
        "EliminateSlice": "Slice",
        "UnsqueezeElimination": "Unsqueeze",
        "EliminateDropout": "Dropout",
        "ExpandElimination": "Expand",
        "CastElimination": "Cast",
        "CastChainElimination": "Cast",
        "PreShapeNodeElimination": "Cast",
        "NoopElimination": "Add Sub Mul Div",
        "DivMulFusion": "Div",
        "FuseReluClip": "Relu",
        "GemmSumFusion": "Gemm",
        "GemmTransposeFusion": "Gemm",
        "NotWhereFusion": "Where",
        "ConvAddFusion": "Conv",
        "ConvMulFusion": "Conv",
        "ConvBNFusion": "Conv",
        "Pad_Fusion": "Pad",
        "MatMul_BatchNormalization_Fusion": "MatMul",
        "LabelEncoderFusion": "LabelEncoder",
    },
    "Level2_RuleBasedTransformer": {
        "ClipQuantRewrite": "Clip",
        "ReluQuantRewrite": "Relu",
        "GemmTransposeFusion": "Gemm",
    },
}
"""The rewrite rules by the transformer that applies them, each with the operators at which it starts."""

TRANSFORMERS = """
    AttentionFusion Avx2WeightS8ToU8Transformer BiasDropoutFusion BiasGeluFusion BiasSkipLayerNormFusion
    BiasSoftmaxFusion CommonSubexpressionElimination ConstantFolding ConstantSharing ConvActivationFusion
    ConvAddActivationFusion DoubleQDQPairsRemover DynamicQuantizeMatMulFusion EmbedLayerNormFusion
    EnsureUniqueDQForNodeUnit FastGeluFusion FreeDimensionOverrideTransformer
    FuseFp16InitializerToFp32NodeTransformer GatherSliceToSplitFusion GatherToSliceFusion GatherToSplitFusion
    GeluApproximation GeluFusion GeluFusionL1 GeluFusionL2 GemmActivationFusion GqaValueLayoutTransformer
    GroupQueryAttentionFusion GroupQueryAttentionPreNormFusion IdenticalChildrenConsolidation LayerNormFusion
    LayerNormFusionL1 LayerNormFusionL2 MatMulActivationFusion MatMulAddFusion MatMulIntegerToFloatFusion
    MatMulNBitsFusion MatMulNBitsMlpFusion MatMulNBitsQkvFusion MatMulScaleFusion MatmulTransposeFusion
    NchwcTransformer NhwcTransformer QDQFinalCleanupTransformer QDQPropagationTransformer
    QDQS8ToU8Transformer QDQSelectorActionTransformer QuickGeluFusion ReshapeFusion RocmBlasAltImpl
    SimplifiedLayerNormFusion SkipLayerNormFusion SliceConcatToSpaceToDepthFusion TransposeOptimizer
    TransposeOptimizer_CPUExecutionProvider WeightBiasQuantization WhereDummyDq
"""
"""The transformers of releases 1.15 to 1.31; a log names those of its own release."""

ALWAYS = frozenset(
    ("CastFloat16Transformer", "InsertCastTransformer", "MemcpyTransformer", "RemoveDuplicateCastTransformer")
)
"""Transformers that run at every level and cannot be disabled."""

OPTIMIZERS = tuple(
    dict.fromkeys([*(rule for rules in RULES.values() for rule in rules), *TRANSFORMERS.split()])
)
"""The names that `disabled_optimizers` takes; one that a release does not know has no effect."""

APPLYING = re.compile(r"Applying graph transformer (\S+) on step")
APPLIED = re.compile(r"GraphTransformer (\S+) modified: (\d) with status: (\S+)")


def applied(run: Run) -> tuple[tuple[str, bool], ...]:
    """The transformers of a run with its log, in order, and whether each modified the graph.

    One that fails, or that is not known to have come to its end, counts as having done so.
    """
    steps: list[tuple[str, bool]] = []
    open_one = ""
    for line in run.log:
        if match := APPLYING.search(line):
            steps += [(open_one, True)] if open_one else []
            open_one = match[1]
        elif match := APPLIED.search(line):
            steps.append((match[1], match[2] != "0" or match[3] != "OK"))
            open_one = ""
    return tuple([*steps, (open_one, True)] if open_one else steps)


def fired(run: Run) -> tuple[str, ...]:
    """The transformers that modified the graph, by the log, and the one in which the run died."""
    return tuple(dict.fromkeys(name for name, modified in applied(run) if modified))


def suspects(run: Run) -> tuple[str, ...]:
    """What can be disabled of what fired; where it applies rules all of these: no log tells which."""
    names = (rule for name in fired(run) if name not in ALWAYS for rule in RULES.get(name, [name]))
    return tuple(dict.fromkeys(names))


def told_with(name: str) -> tuple[str, ...]:
    """The other rules of the transformers that apply this one: the log has one line for all of them."""
    families = [rules for rules in RULES.values() if name in rules]
    return tuple(dict.fromkeys(rule for rules in families for rule in rules if rule != name))


def has_fired(run: Run, name: str) -> bool:
    """Whether the transformer, or one that applies the rule, modified the graph."""
    return any(step == name or name in RULES.get(step, ()) for step in fired(run))


def optimizers(run: Run) -> tuple[str, ...]:
    """Everything that can be disabled: the names that we know, and those of the run's log."""
    logged = (name for name, _ in applied(run) if name not in RULES and name not in ALWAYS)
    return tuple(dict.fromkeys([*OPTIMIZERS, *logged]))


def likely(names: Iterable[str], operators: AbstractSet[str]) -> tuple[str, ...]:
    """Those of the passes that have something to start at in a graph of these operators."""
    starts = {rule: ops.split() for rules in RULES.values() for rule, ops in rules.items()}
    return tuple(name for name in names if name not in starts or not operators.isdisjoint(starts[name]))


def without(config: Config, disabled: Iterable[str]) -> Config:
    """The configuration with these passes disabled besides those that it disables already."""
    from dataclasses import replace

    before = config.get("disabled_optimizers")
    names = sorted({*(before if isinstance(before, tuple) else ()), *disabled})
    settings = {**dict(config.settings), "disabled_optimizers": tuple(names)}
    return replace(config, settings=tuple(settings.items()))


def backend() -> Backend:
    """What crux knows of this backend."""
    from oracles.abilities import Backend, Passes, Telling

    return Backend(
        NAME,
        PACKAGE,
        __file__,
        configs,
        classify,
        computes_wide=True,
        shows_optimised=True,
        libraries=LIBRARIES,
        passes=Passes(
            DISABLED_BY,
            fired,
            suspects,
            optimizers,
            likely,
            without,
            telling=Telling(may_have_fired=suspects, told_with=told_with, has_fired=has_fired),
        ),
    )
