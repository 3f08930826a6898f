"""Running a program of torch: its inputs' dynamic dims marked, its outputs as arrays.

`torch._inductor.compiler_bisector` is asked before each pass over a graph, each decomposition and each
lowering of a node whether to leave that one out. Its answer is replaced by ours, and asked for at each match
of a pattern, too: many of them are one pass.
"""

import json
import re
import sys
from contextlib import contextmanager
from functools import partial
from typing import Any, Callable, Iterator, Sequence  # noqa: UP035 (Python 3.8)

import torch
from torch._inductor import compile_fx, config
from torch._inductor.compiler_bisector import CompilerBisector
from torch._inductor.pattern_matcher import PatternMatcherPass
from torch._inductor.virtualized import V

from oracles.worker import rounds
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
from oracles.worker.torch.options import DECOMPOSED, patches_of


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
            call = compiled(module, backend, enter, mark_dims(dynamic_dims(document), given))
        for _ in rounds(settings, enter):
            call(*map(copied, given))
        values = call(*given)
    found = results(document["main"]["outputs"], values)
    state = {**dict(zip(names, given)), **held(document, module)}  # noqa: B905 (Python 3.8)
    return {**found, **results([f"{name} afterwards" for name in changed], [state[name] for name in changed])}


def copied(value: Any) -> Any:
    """An argument that a call may write to."""
    return value.clone() if isinstance(value, torch.Tensor) else value


def mark_dims(dims: Sequence[Sequence[int]], given: list[Any]) -> Any:
    """Have dynamo take dims (which input, which dim) as symbols; the `dynamic` to compile with."""
    for place, dim in dims:
        torch._dynamo.maybe_mark_dynamic(given[place], dim)
    return None if dims else False


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
    if wholly:
        exec(DECOMPOSED, {"torch": torch})
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
