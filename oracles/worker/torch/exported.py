"""A torch module as an ONNX model by torch's own exporters, and that model run.

Such a file (of TORCHDYNAMO_REPRO_AFTER or TORCH_COMPILE_DEBUG) makes a module `mod`, and `load_args` reads
its inputs from the folder that was saved beside it, or else makes random ones. It is run up to there, not as
a program. AOTInductor's minifier writes another kind: its graph and inputs are an exported program beside it.
"""

import contextlib
import io
import os
import re
import warnings
from typing import Any, Iterable  # noqa: UP035 (Python 3.8)

import onnxruntime
import torch

from oracles.worker.onnx import Unsupported
from oracles.worker.torch.data import from_torch


def export(module: Any, feeds: list[Any], exporter: str, disabled: Iterable[str] = ()) -> bytes:
    """The model's bytes; raises the exception that began it all where the exporter gives up.

    What the exporter puts around that one says which step it was at, and nothing of the program. The
    arguments that are `disabled` are false.
    """
    try:
        return _exported(module, feeds, exporter, disabled)
    except Exception as error:
        first: BaseException = error
        while first.__cause__ is not None:
            first = first.__cause__
        raise first from None


def _exported(module: Any, feeds: list[Any], exporter: str, disabled: Iterable[str]) -> bytes:
    file = io.BytesIO()
    names = [f"x{place}" for place in range(len(feeds))]
    options = {"input_names": names, "verbose": False, **dict.fromkeys(disabled, False)}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        if exporter == "torchscript":
            torch.onnx.export(module, tuple(feeds), file, dynamo=False, **options)
            return file.getvalue()
        made = torch.onnx.export(module, tuple(feeds), dynamo=True, **options)
        made.save(file)
    return file.getvalue()


def known_to_the_exporter() -> frozenset[str] | None:
    """Return torch's own operators that the exporter by `torch.export` knows; None if it does not tell.

    It has a function for an overload, or takes the operator apart.
    """
    try:
        from torch.onnx._internal.exporter import _decomp, _registration

        functions = _registration.ONNXRegistry.from_torchlib().functions
        apart = _decomp.create_onnx_friendly_decomposition_table(set(functions))
    except (ImportError, AttributeError, TypeError):  # another release has it elsewhere
        return None
    composite = filter(_is_composite, torch._C._dispatch_get_all_op_names())
    told = (str(each).replace("::", ".").split(".") for each in (*functions, *apart, *composite))
    return frozenset(words[1] for words in told if words[0] == "aten" and len(words) > 1)


def _is_composite(name: str) -> bool:
    """Whether torch itself writes an operator by others."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"))


def run_exported(model: bytes, feeds: list[Any], runner: str = "") -> list[Any]:
    """The model's outputs, in order, by onnxruntime or, by name, ONNX's `reference` evaluator.

    An input that the exporter left out is not fed.
    """
    given = {f"x{place}": fed(each) for place, each in enumerate(feeds)}
    if runner == "reference":
        return run_by_reference(model, given)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    taken = {item.name for item in session.get_inputs()}
    found: list[Any] = session.run(None, {name: value for name, value in given.items() if name in taken})
    return found


def run_by_reference(model: bytes, given: dict[str, Any]) -> list[Any]:
    """A valid model's outputs, in order, by ONNX's reference evaluator.

    The evaluator does not look at types: whether the model keeps to the operators' says the checker.
    """
    import onnx
    from onnx.reference import ReferenceEvaluator

    onnx.checker.check_model(model, full_check=True)
    session = ReferenceEvaluator(model)
    taken = set(session.input_names)
    found: list[Any] = session.run(None, {name: value for name, value in given.items() if name in taken})
    return found


def fed(tensor: Any) -> Any:
    """The array of a tensor."""
    value = from_torch(tensor)
    if isinstance(value, tuple):
        raise Unsupported(f"onnxruntime takes no {value[0]} from numpy")
    return value


MAKER = re.compile(r"^from torch\._dynamo\.repro\.\w+ import run_repro", re.MULTILINE)
INDENTED = re.compile(r"^\s+from torch\._dynamo\.repro\.(after_aot|after_dynamo) import", re.MULTILINE)
CACHE = re.compile(r"^os\.environ\[[^\]]*\] *= *.*$", re.MULTILINE)
"""A dump's own settings of the environment name folders of another machine."""
OF_AOTI = re.compile(r"^\s+from torch\._dynamo\.repro\.aoti import run_repro", re.MULTILINE)
ARCHIVE = re.compile(r"^exported_program = torch\.export\.load\('([^']*)'\)", re.MULTILINE)
SAVED = re.compile(r"save_dir=(?:r?'([^']*)'|r?\"([^\"]*)\")")


def is_dump(text: str) -> bool:
    """Whether a script is one that torch has dumped."""
    return bool(MAKER.search(text) or INDENTED.search(text)) and "def load_args(" in text


def read_dump(name: str, text: str) -> tuple[Any, list[Any]]:
    """The module and the list of its inputs; random inputs are the same every time."""
    from torch._dynamo.debug_utils import InputReader

    space: dict[str, Any] = {"__name__": "dumped", "__file__": name}
    exec(compile(CACHE.sub("", text), name, "exec"), space)
    torch.manual_seed(0)
    reader = InputReader(save_dir=saved_beside(name, text))
    space["load_args"](reader)
    module = space["mod"]
    return module.eval() if isinstance(module, torch.nn.Module) else module, list(reader.args)


def saved_beside(name: str, text: str) -> str | None:
    """The folder of saved inputs: where the dump says, or of that name beside it; else None."""
    found = SAVED.search(text)
    if not found:
        return None
    named = found.group(1) or found.group(2)
    beside = os.path.join(os.path.dirname(name), os.path.basename(named.rstrip("/")))
    return next((folder for folder in (named, beside) if os.path.isdir(folder)), None)


def is_of_aoti(text: str) -> bool:
    """Whether a script is one that AOTInductor's minifier has written."""
    return bool(OF_AOTI.search(text) and ARCHIVE.search(text))


def archive_of(name: str, text: str) -> str:
    """The file of the exported program that such a script loads: where it says, or beside the script.

    Raises FileNotFoundError where it is at neither place.
    """
    found = ARCHIVE.search(text)
    named = found.group(1) if found else ""
    folder, kept = os.path.dirname(name), os.path.basename(os.path.dirname(named))
    places = [
        os.path.join(folder, kept, os.path.basename(named)),
        os.path.join(folder, os.path.basename(named)),
    ]
    for place in (named, *places):
        if os.path.isfile(place):
            return place
    raise FileNotFoundError(f"its exported program is not there; keep {named!r} or put it beside the script")
