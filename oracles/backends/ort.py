"""ONNX Runtime: a part that runs in the worker (Python 3.8, numpy, onnxruntime), and a part in crux."""

from __future__ import annotations

import base64
import os
import re
import tempfile
from typing import TYPE_CHECKING, Any, Callable, Iterable  # noqa: UP035 (Python 3.8)

if TYPE_CHECKING:
    from corpus.target import Target
    from oracles.abilities import Backend
    from oracles.verdict import Config, Run

NAME = "ort"
PACKAGE = "onnxruntime"
LIBRARIES = (("onnxruntime/capi/onnxruntime_pybind11_state*.so", ""),)

# In the worker

MOST_THREADS = 64
"""More threads than this a sandbox does not let a worker start."""


def load() -> str:
    """Import the framework (in the zygote) and warm it up; its version."""
    import numpy as np
    import onnxruntime

    from oracles.worker.ort.sessions import small_model

    onnxruntime.set_default_logger_severity(4)
    ones = np.ones(1, "float32")
    run(small_model("Neg", {"x": (1, "tensor")}), {"x": ones}, {}, None, lambda phase: None)
    return str(onnxruntime.__version__)


def run(
    program: Any, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Callable[[str], None]
) -> dict[str, Any]:
    """Load, initialise and run one model (bytes or a path); `enter` is told of each phase when it begins.

    Settings: `level` (of `LEVELS`), `disabled_optimizers`, `providers`, `threads`, `log`, and as `passes` the
    case's own options. What fails before the first optimiser can have run is of the import.
    """
    from oracles.worker import called
    from oracles.worker.ort.bound import must_keep_within
    from oracles.worker.ort.sessions import core, session_options

    session = core.InferenceSession(
        session_options(settings, program, inputs), program, isinstance(program, str), False
    )
    if settings.get("level") != "none":
        enter("optimise")
    providers = available(settings.get("providers") or ["CPUExecutionProvider"])
    session.initialize_session(
        providers, [{} for _ in providers], set(settings.get("disabled_optimizers") or ())
    )
    if settings.get("loads_only"):
        enter("codegen")
        must_load_again(program, settings, session)
    # the public class asks at once where the outputs lie, and fails where the optimiser has removed one
    getattr(session, "output_meminfos", None)
    enter("execute")
    found: dict[str, Any] = called(lambda given: execute(session, given, outputs), inputs, settings, enter)
    if is_watched(program, settings):
        must_keep_within(session, inputs, found)
    return found


WATCHED_BYTES = 1 << 18
"""A larger program may take long to run, and is run once."""


def is_watched(program: Any, settings: dict[str, Any]) -> bool:
    """Whether a run is optimised, on this machine's CPU, and neither quick nor timed nor guarded."""
    others = ("quick", "warm", "guarded")
    if settings.get("level", "none") == "none" or any(map(settings.get, others)):
        return False
    is_small = isinstance(program, bytes) and len(program) <= WATCHED_BYTES
    return is_small and list(settings.get("providers") or ()) == ["CPUExecutionProvider"]


def execute(session: Any, inputs: dict[str, Any], outputs: Any) -> dict[str, Any]:
    """Run an initialised session for the outputs that are wanted, or for all."""
    from oracles.worker.ort.sessions import BORROWED, as_map, dense, from_ortvalue, is_plain, to_ortvalue

    BORROWED.clear()
    maps = [node.name for node in session.inputs_meta if node.type.startswith("map(")]
    inputs = {**inputs, **{name: as_map(inputs[name]) for name in maps if name in inputs}}
    types = {node.name: node.type for node in session.outputs_meta}
    wanted = list(types if outputs is None else outputs)
    if not wanted:
        return {}  # a session refuses to run for nothing
    if is_plain(inputs.values(), [types.get(name, "") for name in wanted]):
        values = [dense(value) for value in session.run(wanted, inputs, None)]
    else:
        feeds = {name: to_ortvalue(value) for name, value in inputs.items() if value is not None}
        values = [from_ortvalue(value) for value in session.run_with_ort_values(feeds, wanted, None)]
    return {name: values[index] for index, name in enumerate(wanted)}


def must_load_again(program: Any, settings: dict[str, Any], session: Any) -> None:
    """Save what a session has made of a program, and load that; raise if it has other types than before."""
    from oracles.worker.ort.sessions import core, session_options, signature_of

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "saved.onnx")
        options = session_options(settings)
        options.optimized_model_filepath = path
        if isinstance(program, str):  # with weights in files, whose places are told from the program's own
            options.add_session_config_entry(
                "session.optimized_model_external_initializers_file_name", "saved"
            )
        providers = available(settings.get("providers") or ["CPUExecutionProvider"])
        saving = core.InferenceSession(options, program, isinstance(program, str), False)
        disabled = set(settings.get("disabled_optimizers") or ())
        saving.initialize_session(providers, [{} for _ in providers], disabled)
        again = core.InferenceSession(session_options({"level": "none"}), path, True, False)
        again.initialize_session(providers, [{} for _ in providers], set())
    plain = core.InferenceSession(
        session_options({"level": "none"}), program, isinstance(program, str), False
    )
    for name, found in (("loaded", session), ("saved and loaded again", again)):
        types = signature_of(found)
        for item, was in signature_of(plain).items():
            now = types.get(item, ("gone", ()))
            if not agree(was, now):
                raise TypesChanged(f"{name}, {item} is {now[0]} {now[1]}, as written {was[0]} {was[1]}")


class TypesChanged(Exception):
    """What a program takes or gives is of another type or shape once it is loaded or saved."""


def agree(was: Any, now: Any) -> bool:
    """Whether two types are one, and the sizes equal that both of them fix."""
    if was[0] != now[0] or not was[1] or not now[1]:
        return bool(was[0] == now[0])
    pairs = [pair for pair in zip(was[1], now[1]) if all(isinstance(size, int) for size in pair)]  # noqa: B905
    return len(was[1]) == len(now[1]) and all(left == right for left, right in pairs)


def available(providers: list[str]) -> list[str]:
    """The providers, which onnxruntime would leave out without a word when its build lacks them."""
    from oracles.worker.ort.sessions import core

    for name in providers:
        if name not in core.get_available_providers():
            has = ", ".join(core.get_available_providers())
            raise RuntimeError(f"{name} is not available in this build of onnxruntime, which has {has}")
    return list(providers)


def optimised(program: str, level: str, disabled: Iterable[str] = ()) -> str:
    """The program (base64, as is the answer) as this level leaves it; nothing where that fails.

    Passes that are `disabled` have no part in it.
    """
    from oracles.worker.ort.sessions import core, session_options

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


def documented(path: str, content: str) -> dict[str, Any]:
    """The models that the tests of a file (in base64) make; needs `onnx`, and runs the file's code."""
    from oracles.worker import onnx as onnx_documented

    return onnx_documented.documented(path, content)


def tables() -> list[list[Any]]:
    """List the kernels: [domain, operator, provider, first opset, last opset, {parameter: types}]."""
    from oracles.worker.ort.sessions import core

    rows = []
    for kernel in core.get_all_opkernel_def():
        start, end = kernel.version_range
        types = {name: list(found) for name, found in kernel.type_constraints.items()}
        rows.append([kernel.domain, kernel.op_name, kernel.provider, start, end, types])
    return rows


# In crux


def configs(target: Target) -> tuple[Config, ...]:
    """Un-optimised, the level of `@opt=` (all), then the lower ones; for the GPU, first on the CPU.

    Settings: `@opt=LEVEL`, `@threads=N` (one within an operator), `@disabled_optimizers=NAME,NAME`.
    """
    from corpus.errors import UserError
    from oracles.verdict import Config

    order = ("all", "layout", "extended", "basic")
    level = target.chosen("opt", order)
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
    own = tuple(Config(name, (("level", name), *shared)) for name in ("none", level, *reversed(lower)))
    if target.device != "cuda":
        return own
    cpu = (("providers", provider_names("cpu")), *shared[1:])
    return (Config("none on the CPU", (("level", "none"), *cpu)), *own)


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
    ("out-of-memory", (r"std::bad_alloc", r"Failed to allocate memory")),
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
            r"Failed to construct locale",  # the machine lacks it
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
        ),
    ),
)
"""What messages say of themselves, in this order."""

PATTERNS = tuple((name, re.compile("|".join(texts))) for name, texts in CLASSES)


def classify(run: Run) -> str:
    """Classify a failed run by its own words; empty if it may be a bug.

    If the baseline works, "unsupported" in an optimised run is still a bug: the optimiser made the
    node that has no kernel.
    """
    if run.is_ok:
        return ""
    return next((name for name, pattern in PATTERNS if pattern.search(run.message)), "")


def _lacks_vnni() -> bool:
    """Whether this is an x86 without the instructions that sum products of bytes in 32 bits."""
    try:
        with open("/proc/cpuinfo") as told:
            text = told.read()
    except OSError:
        return False
    return "avx2" in text and "vnni" not in text


def backend() -> Backend:
    """Describe this backend."""
    from oracles.abilities import Backend, Sequences
    from oracles.ort_passes import DISABLING
    from oracles.worker.ort import OPTIONS

    return Backend(
        NAME,
        PACKAGE,
        __file__,
        configs,
        classify,
        saturates=_lacks_vnni,
        computes_wide=True,
        calls_again=frozenset({"onnx"}),
        shows_optimised=True,
        libraries=LIBRARIES,
        passes=DISABLING,
        sequences=Sequences.of_options(OPTIONS),
    )
