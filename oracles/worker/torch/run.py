"""Running a program of torch: its inputs' dynamic dims marked, its outputs as arrays.

`torch._inductor.compiler_bisector` is asked before each pass over a graph, each decomposition and each
lowering of a node whether to leave that one out. Its answer is replaced by ours, and asked for at each match
of a pattern, too: many of them are one pass.
"""

import contextlib
import io
import json
import os
import re
import sys
import warnings
from contextlib import contextmanager
from functools import partial
from typing import (  # noqa: UP035 (Python 3.8)
    Any,
    Callable,
    Iterable,
    Iterator,
)

import onnxruntime
import torch
from torch._inductor import compile_fx, config
from torch._inductor.compiler_bisector import CompilerBisector
from torch._inductor.pattern_matcher import PatternMatcherPass
from torch._inductor.virtualized import V

from oracles.worker import rounds
from oracles.worker.onnx import Unsupported
from oracles.worker.torch.data import from_torch
from oracles.worker.torch.graph import (
    constant,
    dynamic_dims,
    evaluate,
    feeds,
    held,
    named,
    results,
    to_module,
    written,
)
from oracles.worker.torch.options import patches_of


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


def compiled(module: Any, backend: str, enter: Callable[[str], None], dynamic: Any = False) -> Any:
    """The phase is *codegen* from here on, and *execute* once what was made of the module is called."""
    enter("codegen")
    torch._dynamo.reset()
    make = torch._dynamo.lookup_backend(backend)

    def making(graph: Any, examples: Any, **options: Any) -> Any:
        made = make(graph, examples, **options)

        def called(*values: Any) -> Any:
            enter("execute")
            return made(*values)

        return called

    # of a graph its forward: what the module's own call does with an error would be compiled, and hide it
    entry = module.forward if isinstance(module, torch.fx.GraphModule) else module
    making.__name__ = backend  # messages name it
    return torch.compile(entry, backend=making, fullgraph=True, dynamic=dynamic)


def run_program(
    program: bytes, inputs: dict[str, Any], settings: dict[str, Any], outputs: Any, enter: Any
) -> dict[str, Any]:
    """Run a program of the format `torch`; settings: `backend` of `torch.compile`, `double`, `device`.

    Asked for `outputs` by name it gives them as they were made. Otherwise it gives the results as a caller
    gets them, and after them what it has written to: inputs and constants, each called `NAME afterwards`.
    """
    if settings.get("show") == "source":
        from oracles.worker.torch.graph_source import source

        return source(program, inputs)
    document = json.loads(program)
    backend, double = settings.get("backend", "eager"), bool(settings.get("double"))
    device = str(settings.get("device", "cpu"))
    module, names = to_module(document, double, device)
    given = feeds(inputs, document["main"]["inputs"], double, device)
    torch.manual_seed(0)
    with torch.no_grad():
        if backend == "eager" and outputs is not None:
            enter("execute")
            known = named(document, evaluate(module, given))
            known.update({name: given[index] for index, name in enumerate(names)})
            missing = [name for name in outputs if name not in known]
            known.update({name: constant(*document["constants"][name]) for name in missing})
            return results(outputs, [known[name] for name in outputs])
        changed = written(document, module, given)
        call = module
        if backend == "eager":
            enter("execute")
        else:
            is_dynamic = mark_dims(document, given)
            call = compiled(module, backend, enter, dynamic=None if is_dynamic else False)
        for _ in rounds(settings, enter):
            call(*map(copied, given))
        values = call(*given)
    found = results(document["main"]["outputs"], values)
    state = {**dict(zip(names, given)), **held(document, module)}  # noqa: B905 (Python 3.8)
    return {**found, **results([f"{name} afterwards" for name in changed], [state[name] for name in changed])}


def copied(value: Any) -> Any:
    """An argument that a call may write to."""
    return value.clone() if isinstance(value, torch.Tensor) else value


def mark_dims(document: dict[str, Any], given: list[Any]) -> bool:
    """Have dynamo take the symbolic dims as such; whether there are any."""
    found = dynamic_dims(document)
    for place, dim in found:
        torch._dynamo.maybe_mark_dynamic(given[place], dim)
    return bool(found)


APPLIES = "crux: applies"
"""How a line of the log begins; the name of what is applied ends it."""

SWITCHES: dict[str, dict[str, Any]] = {
    "config.emulate_precision_casts": {"emulate_precision_casts": True},
    "config.layout_optimization": {"layout_optimization": False},
    "config.comprehensive_padding": {"comprehensive_padding": False},
    "config.max_fusion_size": {"max_fusion_size": 1},
}
"""What belongs to no subsystem that counts: settings, and what each is when its part is off."""


@contextmanager
def watched(settings: dict[str, Any]) -> Iterator[None]:
    """Set the case's switches, leave out what is disabled; with `log` say on stderr what is applied."""
    disabled = frozenset(settings.get("disabled_passes") or ())
    members = settings.get("passes") or ()
    if not disabled and not settings.get("log") and not members:
        yield
        return
    patches = patches_of(members)
    for name in sorted(disabled.intersection(SWITCHES)):
        patches.update(SWITCHES[name])
    plain = CompilerBisector.__dict__["disable_subsystem"]
    decide = _decider(disabled, bool(settings.get("log")))
    CompilerBisector.disable_subsystem = classmethod(decide)
    try:
        with config.patch(patches), decomposed("decompositions=core_aten" in members), matched(decide):
            yield
    finally:
        CompilerBisector.disable_subsystem = plain


PATTERNS = "patterns"
"""Our subsystem of what torch has no hook for."""


@contextmanager
def matched(decide: Callable[..., bool]) -> Iterator[None]:
    """Ask of each match of a pattern, too, by the name of the function that replaces it."""
    plain = PatternMatcherPass.apply

    def apply(patterns: Any, graph: Any) -> int:
        entries = {id(entry): entry for each in patterns.patterns.values() for entry in each}.values()
        checks = [(entry, entry.extra_check) for entry in entries]
        for entry, check in checks:
            entry.extra_check = partial(_asked_first, decide, _replacing(entry), check)
        try:
            return int(plain(patterns, graph))
        finally:
            for entry, check in checks:
                entry.extra_check = check

    PatternMatcherPass.apply = apply
    try:
        yield
    finally:
        PatternMatcherPass.apply = plain


def _asked_first(decide: Callable[..., bool], name: str, check: Callable[[Any], Any], match: Any) -> Any:
    return False if decide(None, "inductor", PATTERNS, lambda: name) else check(match)


def _replacing(entry: Any) -> str:
    handler = getattr(entry, "handler", None)
    return getattr(handler, "__name__", "") or getattr(entry, "pattern_name", "") or "unnamed"


@contextmanager
def decomposed(wholly: bool) -> Iterator[None]:
    """Take operators apart as an export does, those included that inductor lowers, where that is wanted."""
    plain = compile_fx.select_decomp_table
    core_aten = torch._decomp.core_aten_decompositions
    if wholly:
        compile_fx.select_decomp_table = lambda: {**plain(), **core_aten()}
    try:
        yield
    finally:
        compile_fx.select_decomp_table = plain


def _decider(disabled: frozenset[str], log: bool) -> Callable[..., bool]:
    """Stands in for the bisector: True for what is to be left out, wherever it is applied."""

    def is_disabled(cls: Any, backend: str, subsystem: str, debug_info: Any = None) -> bool:
        name = f"{subsystem}.{_operator() if subsystem == 'lowerings' else _word(debug_info)}"
        if name not in disabled and log:
            sys.stderr.write(f"{APPLIES} {name}\n")
            sys.stderr.flush()
        return name in disabled

    return is_disabled


def _operator() -> str:
    """What is lowered now: a node's own name has a number, which is another one in a smaller program."""
    return str(V.current_node.target.overloadpacket.__name__)


def _word(debug_info: Any) -> str:
    """The name in torch's note of an application (of a pass, a node, an operator) as one word."""
    text = str(debug_info()) if debug_info else "all"
    match = OPERATOR.fullmatch(text)
    return ".".join(match.groups()) if match else text.replace(" ", "")


OPERATOR = re.compile(r"<OpOverload\(op='(.*)', overload='(.*)'\)>")
