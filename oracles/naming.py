"""The names that a model gives its nodes and values: they may stand in a message and mean nothing there.

Components by kind. Exceptions: backend, phase, C++ site (or the exception's class where there is none), the
operator where the site does not tell it, message template. Crashes: signal and the operators of the reduced
case; frames of stripped libraries are starts of functions, which move from build to build, so only named ones
count. Timeouts: phase and operators. Wrong results: the minimal passes where they are known, the pattern of
operators with their dtypes, the kind of difference. Never part of it: build ids, versions, shapes, names.
"""

from __future__ import annotations

import hashlib
import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx

from corpus.case import Case
from corpus.format import Measure
from corpus.onnx.graph import defined_names, walk_graphs, walk_model
from oracles.abilities import language_of
from oracles.failure_text import as_written, read_failure
from oracles.normalise import parse_message, template
from oracles.numerics.compare import Tolerance
from oracles.numerics.mismatch_kind import mismatch_kind
from oracles.verdict import Frame, Outcome, Phase, Run, Status, Symptom, Verdict
from oracles.worker.onnx import DOMAIN

VERSION = 1
Component = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Signature:
    """The printable components of a bug's name, and their digest; comparable within one `version`."""

    version: int
    components: tuple[Component, ...]
    digest: str

    @classmethod
    def of(cls, *components: Component) -> Signature:
        """Make a signature of named components; empty ones are left out."""
        kept = tuple((name, text) for name, text in components if text)
        joined = "\x1f".join([str(VERSION), *(f"{name}\x1e{text}" for name, text in kept)])
        return cls(VERSION, kept, hashlib.sha256(joined.encode()).hexdigest()[:12])

    def __str__(self) -> str:
        return " | ".join(f"{name}: {text}" for name, text in self.components)


GENERATED = re.compile(r"^c[a-z2-7]{51}$")
"""A library of compiled kernels: inductor names it after a hash of its source."""


def signal_name(number: int) -> str:
    """A signal's name, such as `SIGSEGV`; its number if it has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"exit {number}" if number <= 0 else f"signal {number}"


def crash_site(frames: Sequence[Frame]) -> str:
    """The innermost frame (glue is not among them): its library without the build's tags, its function."""
    if not frames:
        return ""
    library = GENERATED.sub("generated", frames[0].library.split(".", 1)[0])
    return f"{library} {frames[0].function}".strip()


def symptom_of_run(outcome: Outcome, run: Run, names: Iterable[str] = (), side: str = "") -> Symptom:
    """The symptom of one run that did not end well; `names` are the model's own, to be dropped."""
    if run.status is Status.EXCEPTION:
        from oracles.failure_text import native_site, wordless_site
        from oracles.normalise import parse_message, template

        parsed = parse_message(run.message)
        text = template(parsed.rest, names)
        op = parsed.op or parse_message(run.trace[: run.trace.find("\n") + 1]).op
        message = f"{op}: {text}" if op else text
        site = parsed.site or native_site(run.trace) or wordless_site(text, run.trace)
        return Symptom(outcome, run.phase, run.error, site, message, side)
    if run.status is Status.CRASH:
        return _of_crash(outcome, run, names, side)
    return Symptom(outcome, run.phase, run.status.value, side=side)


def _of_crash(outcome: Outcome, run: Run, names: Iterable[str], side: str) -> Symptom:
    kind = signal_name(run.signal)
    from oracles.normalise import template

    # only an abort says why it died; what else stands on stderr belongs to no one failure
    message = template(run.message, names) if kind == "SIGABRT" else ""
    return Symptom(outcome, run.phase, kind, crash_site(run.frames), message, side)


def symptom_of_difference(kind: str, wrong_side: str, asked_by: str = "") -> Symptom:
    """The symptom of a wrong result: `shape`, `dtype`, `nan`, `value`, … on one side.

    `asked_by` is the oracle that shows it, where that is not the comparison of the target's own ways.
    """
    return Symptom(Outcome.MISMATCH, Phase.COMPARE, kind, wrong_side, asked_by.partition(":")[0])


if TYPE_CHECKING:
    from corpus.graphs.program import GraphProgram
    from corpus.tir.tree import Module

_PLAIN_WORD = re.compile(r"[A-Za-z]+")


def names_of_case(case: Case) -> frozenset[str]:
    """The names in a case's program, whatever its language."""
    return language_of(case.format).names(case.parsed)


def names_of_loops(module: Module) -> frozenset[str]:
    """Return names as `names_of` does, for a module of PrimFuncs."""
    from corpus.tir.scopes import defined_names as defined_in

    found = {name for function in module.functions.values() for name in defined_in(function)}
    return frozenset(name for name in found | {*module.functions} if not _PLAIN_WORD.fullmatch(name))


def names_of_graph(program: GraphProgram) -> frozenset[str]:
    """Return names as `names_of` does, for a graph of another format."""
    return frozenset(name for name in program.names if not _PLAIN_WORD.fullmatch(name))


def pattern_of_graph(program: GraphProgram) -> str:
    """The types of what flows in, then the operators in order."""
    flowing = [item.dtype for item in program.main.inputs]
    flowing += [value.dtype.name for value in program.constants.values()]
    graphs = (program.main, *program.functions.values())
    every = [binding.op for graph in graphs for binding in graph.walk()]
    words = [op for op in every if op != "call"] if program.functions else every
    return " ".join([*sorted(set(flowing)), *words])


def names_of(model: onnx.ModelProto) -> frozenset[str]:
    """Every name of a function, node or value; of the last two no plain words, such as `input`."""
    names = {node.name for node in walk_model(model)}
    for node in walk_model(model):
        names.update(node.output)
    for graph in walk_graphs(model.graph):
        names |= defined_names(graph)
        names.add(graph.name)
    called = frozenset(each.name for each in model.functions if not onnx.defs.has(each.name))
    return called | {name for name in names if name and not _PLAIN_WORD.fullmatch(name)}


SHARED_FILES = (
    *("op.h ", "op.cc ", "op_common.h ", "op_common.cc ", "transform.h ", "block_builder.cc "),
    *(
        "fuse_ops.cc OperatorFusor::",
        "common.h ",
        "tensor.h ",
        "tensor_shape.h ",
        "tensor_shape.cc ",
        "op_kernel_context.h ",
        "safeint.h ",
    ),
)
"""Helpers are not sites: checks of TVM, then of onnxruntime, that any operator may run into.

`OperatorFusor` serves three of TVM's passes: which of them fails, and over what, only the pass tells.
"""


def signature(
    verdict: Verdict, measure: Measure | None, case: Case | None, passes: tuple[str, ...] = ()
) -> Signature:
    """The signature of a failing verdict on its reduced case, `passes` being the minimal set where known."""
    symptom = verdict.symptom
    if symptom is None:
        raise ValueError("a verdict that passes has no signature")
    backend = case.target.backend if case is not None and case.target is not None else ""
    head = (("backend", backend), ("outcome", symptom.outcome.value), ("phase", symptom.phase.value))
    run = verdict.failing
    if verdict.misuse_by_turns:
        known = (("backend", backend), ("outcome", Outcome.CRASH.value), ("signal", verdict.misuse_by_turns))
        return Signature.of(*known, ("ops", _multiset(measure)))
    match symptom.outcome:
        case Outcome.CRASH:
            return Signature.of(*head, *_crash(run, symptom.kind, measure, case))
        case Outcome.MISMATCH:
            return Signature.of(*head, *_mismatch(verdict, measure, case, passes))
        case Outcome.TIMEOUT | Outcome.OUT_OF_MEMORY:
            return Signature.of(*head, ("ops", _multiset(measure)))
    message, trace = (run.message, run.trace) if run is not None else ("", "")
    site = _own_site(symptom.site) or (importer_site(trace) if symptom.phase is Phase.IMPORT else "")
    components = dict(_exception(symptom.kind, site, message, names_of_case(case) if case else frozenset()))
    if not (components["site"] or components["op"]):
        components["op"] = parse_message(trace.partition("\n")[0]).op
    if case is not None and _is_call(case, components["op"]):
        components["op"] = "function"  # what it holds has no part in what is said of its call
    if not (components["site"] or components["op"]) and symptom.kind not in _TOLD_OF_A_PASS:
        # a text about the graph as a whole serves many bugs: what was rewritten tells them apart
        operators = _multiset(measure) if _operators_tell(case) else ""
        components["rewritten"] = " ".join(sorted(passes or _own_passes(case))) or operators
    is_told = not _operators_tell(case) and components["site"] and not _VERIFIES.search(components["site"])
    return Signature.of(*head, ("side", "" if is_told else symptom.side), *components.items())


def _is_call(case: Case, op: str) -> bool:
    """Whether an operator is a function of the program's own."""
    return bool(op) and language_of(case.format).written_out(case.parsed, op) != op


def _own_passes(case: Case | None) -> tuple[str, ...]:
    """The passes that a program is put through itself, without options, where these say what fails."""
    names = case.passes if case is not None and not _operators_tell(case) else ()
    return tuple(name for name in names if "=" not in name)


def _operators_tell(case: Case | None) -> bool:
    """Whether a reduced program's operators tell its bug: statements of loops say little of what fails."""
    return case is None or language_of(case.format).operators_tell


_VERIFIES = re.compile(r"[Vv]erif|[Ww]ell_?[Ff]ormed|use_def")
"""Places of TVM that check what others have made, so that one text may have a cause on each side.

Any other place says the same of a TIR program wherever it is met: before a pipeline or within it.
"""


_TOLD_OF_A_PASS = ("InputChanged",)
"""Errors whose words name the pass at fault, whatever the program holds."""

_FRAME = re.compile(
    r'^  File "(?!.*/oracles/)(?:.*/(?:site|dist)-packages/(\w+)/)?(?:.*/)?([\w.]+)", line \d+, in (\S+)$',
    re.M,
)
"""A line of a traceback; our own worker's are left out, which call the importer and name no bug."""
_OF_ONE_OPERATOR = re.compile(r"_impl\w*|convert|<\w+>|__\w+__|_?construct_nodes")
"""Functions of an importer that each operator has one of, or that all go through."""


def importer_site(trace: str) -> str:
    """`file.py function` of the helper that an importer raised in; "" in an operator's own converter.

    A library that the importer calls, such as numpy, serves anybody: the importer's frame above it counts.
    """
    frames = _FRAME.findall(trace)
    importer = next((package for package, *_ in frames if package), "")
    own = [place for package, *place in frames if package in ("", importer)]
    file, function = own[-1] if own else ("", "")
    return f"{file} {function}" if file.endswith(".py") and not _OF_ONE_OPERATOR.fullmatch(function) else ""


def _own_site(site: str) -> str:
    """The place that threw. A function that serves many operators does not count: the operators do."""
    return "" if site.startswith(SHARED_FILES) else site


def _multiset(measure: Measure | None) -> str:
    return " ".join(sorted(op for op in measure.ops if op != "Constant")) if measure is not None else ""


def _crash(run: Run | None, signal: str, measure: Measure | None, case: Case | None) -> Iterator[Component]:
    yield "signal", signal
    yield "site", _named_function(run.frames) if run is not None else ""
    operators = _multiset(measure)
    yield "ops", operators if case is None else language_of(case.format).written_out(case.parsed, operators)


def _named_function(frames: tuple[Frame, ...]) -> str:
    """The top function that has a name; a start of a function (`fn_…`) means nothing in another build."""
    return next((frame.function for frame in frames if _is_name(frame.function)), "")


def _is_name(function: str) -> bool:
    return bool(function) and not re.fullmatch(r"fn_[0-9a-f]+", function)


def signature_of_text(text: str) -> Signature:
    """The signature of a failure whose text is all that is left."""
    failure = read_failure(text)
    package = ("package", failure.package)
    if failure.is_crash:
        outcome = "timeout" if failure.kind == "timeout" else "crash"
        return Signature.of(package, ("outcome", outcome), ("signal", failure.kind), ("site", failure.site))
    components = dict(_exception(failure.kind, failure.site, failure.message))
    if not (components["site"] or components["op"]):
        written = as_written(text)
        named = _CONVERTED.findall(written) or _LOWERED.findall(written)
        components["op"] = named[-1] if named else ""
    return Signature.of(package, ("outcome", "exception"), *components.items())


_CONVERTED = re.compile(r"Error converting operator (\w+)")
"""What an importer says before the exception of a helper that any operator may call."""
_LOWERED = re.compile(r'[/\\]tvm[/\\]topi[/\\](?:\w+[/\\])*\w+\.py", line \d+, in (\w+)')
"""The frames of the functions that TVM lowers an operator by, above such a helper."""


def _exception(
    error: str, site: str, message: str, names: frozenset[str] = frozenset()
) -> Iterator[Component]:
    """The class only where no C++ site tells more: releases rename classes, and one site throws one class."""
    parsed = parse_message(message)
    site = _own_site(site or parsed.site)
    text = template(
        re.sub(r"^.{1,300}? was false\. (?=\w)", "", parsed.rest, flags=re.S) if site else parsed.rest, names
    )
    yield "error", "" if site else error
    yield "site", site
    yield "op", "" if site and not _is_generic(site) else parsed.op
    yield "message", text


def _is_generic(site: str) -> bool:
    """Whether many operators fail at this site, for different reasons."""
    return site.split(" ")[-1] in ("Compute", "operator()", "ComputeInternal", "Run")


def _mismatch(
    verdict: Verdict, measure: Measure | None, case: Case | None, passes: tuple[str, ...]
) -> Iterator[Component]:
    symptom = verdict.symptom
    if symptom is not None and symptom.side:  # the operator alone contradicts its declaration
        yield "site", symptom.site
        yield "kind", symptom.kind
        return
    yield "passes", " ".join(sorted(passes))
    language = language_of(case.format) if case is not None else None
    yield "ops", language.pattern(case.parsed) if case is not None and language else _multiset(measure)
    yield "kind", _kind(verdict)
    yield "computed", language.computed(case.parsed) if case is not None and language and passes else ""


def _kind(verdict: Verdict) -> str:
    """The symptom's kind, or a finer word for plain values."""
    kind = verdict.symptom.kind if verdict.symptom is not None else ""
    if kind != "value" or len(verdict.runs) < 2:
        return kind
    return mismatch_kind(verdict.runs[0].outputs, verdict.runs[1].outputs, Tolerance()) or kind


MOST_OPERATORS = 4


def with_operators(what: str, operators: Sequence[str]) -> str:
    """`Pad + MaxPool: …`: each operator once, of many the first ones; torch's own as torch calls them."""
    kinds = list(dict.fromkeys(operator.replace(f"{DOMAIN}:", "aten.") for operator in operators))
    shown = [*kinds[:MOST_OPERATORS], *(["…"] if len(kinds) > MOST_OPERATORS else [])]
    return f"{' + '.join(shown)}: {what}" if shown else what
