"""What a bug is called, the same in lists, on pages and as an issue: operators, effect, pass.

Such as `[DivMulFusion] 1 instead of 0 for Div + Mul`: in brackets the pass, or else the operators.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from corpus.case import Case
from corpus.errors import UserError
from corpus.onnx.types import dtype_name
from corpus.values import Tensor, Value
from oracles.abilities import language_of as judged_as
from oracles.judge import Judge
from oracles.naming import names_of_case, with_operators
from oracles.normalise import name_operators, parse_message, unwrap, without_instructions
from oracles.numerics.compare import Tolerance, differing, shown
from oracles.verdict import Config, Outcome, Phase, Run, Verdict
from reducer.course import Options
from triage.claim import (
    ACCEPTED,
    UNOPTIMISED,
    WRONG,
    Claim,
    Expectation,
    expect,
    signal_text,
    tolerance_showing,
)
from triage.language import language_of, model_of
from triage.projects import GENERAL, Project, project_of, runner_of
from triage.views.rendering import scrub


def in_words(config: Config, project: Project) -> str:
    """Name a configuration behind a verb, as in "at optimisation level `all`"; `project` is the target's."""
    if config.backend:
        return f"by {REFERENCES[config.backend]}" if is_reference(config) else f"with {whose(config)}"
    return project.words.of(config) or f"in the configuration `{config.label}`"


def in_short(config: Config) -> str:
    """Name a configuration for the head of a column or a title: `all`, `eager`, `onnxruntime`."""
    return owner(config) if config.backend else config.label


def only_with(failing: Config, passing: Config, project: Project) -> str:
    """Say at the end of a title where the failure shows; empty if that is plain."""
    if passing.backend:
        return ""
    return f" {project.words.kind}{in_short(failing)}, not {in_short(passing)}"


def while_doing(run: Run, project: Project) -> str:
    """Say what the framework was doing when the run ended, such as "while it runs the model"."""
    words = {
        Phase.IMPORT: "while it loads the model",
        Phase.OPTIMISE: project.words.optimising(run.config),
        Phase.CODEGEN: "while it compiles the model",
        Phase.EXECUTE: "while it runs the model",
    }
    return words.get(run.phase, f"during {run.phase.value}")


REFERENCES = {
    "golden": "numpy, with floats in float64",
    "interpreter": "an interpreter of the loops in Python",
}
"""The references that an oracle compares with, and how each computes."""


def is_reference(config: Config) -> bool:
    """Whether a run is no compiler's."""
    return config.backend in REFERENCES


def whose(config: Config) -> str:
    """Name the source of the values that a script compares with, such as `un-optimised onnxruntime`."""
    if config.get("interpret"):
        return INTERPRETER
    return REFERENCES[config.backend] if is_reference(config) else f"un-optimised {owner(config)}"


INTERPRETER = "StableHLO's interpreter"


def owner(config: Config) -> str:
    """Whose run it is, if it is a baseline of another backend: the project, or else the backend."""
    if config.get("interpret"):
        return "interpreter"
    if is_reference(config):
        return "numpy" if config.backend == "golden" else config.backend
    found = project_of(config.backend)
    return config.backend if found is GENERAL else found.name


MOST_TITLE = 80
MOST_HEAD = 40
"""Characters of what stands in brackets."""
PREAMBLE = re.compile(
    r"^(?:.*?\bwith the following errors?: *|(?:This is an i|I)nvalid model\. (?:Type Error: )?"
    r"|Node \(\S*\) Op \(\w+\) \[\w+\] |Checked failed\. |.*? was false\. )(?=\S)"
)
"""What stands before what is wrong, and would leave no room for it."""
CHECKED = re.compile(r"^Check failed: (?:.*?\) is false ?:(?: ?:)?|.*?(?:\)|\w) ?:) +(?=\S)")
"""What a check of TVM's says before its message: the condition."""
WORDLESS = re.compile(r"^Check failed: \((.*)\) is false ?:?$")
"""A check that says no more than its condition."""
CONTEXT = re.compile(r"^ErrorContext\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\) +(?=\S)")
"""Where TVM's VM checks a value, before what is wrong with it."""
WRAPPED = re.compile(r"backend='\w+' raised:")
"""What says that another exception, which is named behind it, was the cause."""
MOST_PASSES = 2
MOST_ATTRIBUTES = 2
MOST_NUMBER = 24
_TOLERANCE = Tolerance()


def title_of(
    expectation: Expectation,
    operators: Sequence[str],
    passes: Sequence[str] = (),
    tolerance: Tolerance = _TOLERANCE,
) -> str:
    """`[passes, or else operators] effect when`, one line of at most `MOST_TITLE` characters.

    `passes` are those that runs without them have shown to be needed.
    """
    kinds = list(dict.fromkeys(operators))
    if expectation.kind == ACCEPTED:
        return bracketed(_joined(kinds), "accepted although it is invalid")
    if expectation.contradiction:
        subject = kinds[0] if len(kinds) == 1 else ""
        text = expectation.contradiction
        return bracketed(_joined(kinds), text.removeprefix(f"{subject} ") if subject else text)
    if expectation.broken_rule:
        return bracketed(*_between_passes(expectation.failing.message))
    needed = _needed(expectation, passes)
    effect = _effect(expectation, tolerance, needed)
    if needed:
        head = " + ".join(needed)
        head = head if len(head) <= MOST_HEAD else needed[-1]  # what the others led to
        return bracketed(head, effect, f" for {_joined(kinds)}" if kinds else "")
    failing = _failing_of(expectation.failing, kinds)
    others = [each for each in kinds if each != failing] if failing else []
    beside = f" with {_joined(others)}" if others else ""
    return bracketed(failing or _joined(kinds), effect, beside, _where(expectation))


def _between_passes(message: str) -> tuple[str, str]:
    """The pass that a check between passes blames, and what is wrong with it."""
    if found := re.match(r"([\w.]+) ((?:changes|fails on) .*)", message):
        return found[1], found[2]
    found = re.match(r"(.*) after ([\w.]+)(.*)", message)
    return (found[2], f"{found[1]} after it{found[3]}") if found else ("", message)


def bracketed(head: str, effect: str, *when: str) -> str:
    """`[head] effect when`, cut to `MOST_TITLE`: the last condition goes first, the effect's end last."""
    start = f"[{_heading(head)}] " if head else ""
    effect = " ".join(effect.split())
    kept = [" ".join(each.split()) for each in when if each]
    while kept and len(" ".join((start + effect, *kept))) > MOST_TITLE:
        kept.pop()
    return " ".join((start + _cut(effect, MOST_TITLE - len(start)), *kept))


def _heading(head: str) -> str:
    """As many of the names in a head as there is room for."""
    while len(head) > MOST_HEAD and " + " in head:
        head = head.removesuffix(" + …").rpartition(" + ")[0]
    return head if len(head) <= MOST_HEAD else _cut(head, MOST_HEAD)


JOINTS = re.compile(
    r"(an?|against|and|are|as|at|be|both|but|by|can|cannot|could|do|does|for|from|has|have|however|if|in|instead|into"
    r"|is|its|must|no|node|not|of|on|only|or|should|than|that|the|to|was|were|where|which|while|will|with)",
    re.IGNORECASE,
)
"""Words after which no title ends."""
CLAUSE = re.compile(r"[;:.](?= )|,(?= (?!and |or ))| (?=\(|(?:where|which|because|while|when) )")
"""What ends a part of a message that can stand alone."""
LED_IN = re.compile(r"(?:For|If|In|When|With) [^,]*$")
"""What only leads in to what a message says."""
THROWN = re.compile(r"^[A-Za-z_][\w:]*(?: fails)?: (?=\S)")
"""The name of an exception, or of who throws it, before what it says."""


def _cut(text: str, most: int) -> str:
    """As much of a longer text as says something whole: without the exception's name, then a first part."""
    text = text.rstrip(".") if len(text) > most else text
    if len(text) <= most or len(text := THROWN.sub("", text)) <= most:
        return text
    clauses = [text[: found.start()] for found in CLAUSE.finditer(text) if most // 2 <= found.start() <= most]
    whole = [each for each in clauses if _is_balanced(each) and not JOINTS.fullmatch(each.split(" ")[-1])]
    if whole and not LED_IN.match(whole[-1]):
        return whole[-1]
    words = (text[: most + 1].rpartition(" ")[0] or text[:most]).split(" ")
    while len(words) > 1 and (JOINTS.fullmatch(words[-1]) or not _is_balanced(" ".join(words))):
        words.pop()
    return " ".join(words).rstrip(",;:")


def _is_balanced(text: str) -> bool:
    """Whether a text closes the brackets and the quotes that it opens."""
    quotes = re.sub(r"\w'\w|'s\b", "", text)
    pairs = all(text.count(one) <= text.count(other) for one, other in ("()", "[]", "<>"))
    return pairs and all(quotes.count(each) % 2 == 0 for each in "'\"`")


def _joined(kinds: Sequence[str]) -> str:
    return with_operators("", kinds).removesuffix(": ")


def passes_tried(reduction: Mapping[str, Any]) -> tuple[str, ...]:
    """The passes of a reduction that a title may name: none if the failure shows without any one of them."""
    passes = tuple(reduction.get("passes", ()))
    searched = reduction.get("pass_set")
    return passes if searched is None or searched.get("cures") else ()


def _needed(expectation: Expectation, passes: Sequence[str]) -> tuple[str, ...]:
    """The passes that a title names: one or two without which an optimised result is right."""
    is_other = expectation.outcome is Outcome.MISMATCH and expectation.wrong == UNOPTIMISED
    is_told = not (is_other or expectation.is_unstable or expectation.is_by_chance)
    return tuple(passes) if 0 < len(passes) <= MOST_PASSES and is_told else ()


def operators_of(case: Case) -> tuple[str, ...]:
    """The operators of a case as its title names them; of a single one with the attributes that are left."""
    nodes = model_of(case).graph.node
    if len(nodes) != 1 or case.measure.nodes != 1:
        return _without_calls(case, language_of(case.format).operators(case))
    (node,) = nodes
    called = f"{node.domain}:{node.op_type}"
    if (inner := _without_calls(case, (called,))) != (called,):
        return (*inner[:-1], f"{inner[-1]} in a function")
    said = [f"{each.name}={_attribute(each)}" for each in node.attribute]
    short = [text for text in said if len(text) <= MOST_NUMBER and "\n" not in text]
    facts = [*_special_inputs(node, case), *(short if len(short) <= MOST_ATTRIBUTES else ())]
    return (f"{node.op_type} with {', '.join(facts)}" if facts else node.op_type,)


def _without_calls(case: Case, operators: tuple[str, ...]) -> tuple[str, ...]:
    """The operators, with those of the program's own functions in place of the calls."""
    named = " ".join(operators)
    written = judged_as(case.format).written_out(case.parsed, named)
    return operators if written == named else tuple(written.split())


def _special_inputs(node: onnx.NodeProto, case: Case) -> list[str]:
    """The inputs of a single operator that are empty, or left out where any number of them is taken."""
    sizes = {name: value.size for name, value in case.inputs.items() if isinstance(value, np.ndarray)}
    sizes |= {each.name: int(np.prod(each.dims)) for each in model_of(case).graph.initializer}
    is_standard = onnx.defs.has(node.op_type, node.domain)
    formal = onnx.defs.get_schema(node.op_type, domain=node.domain).inputs if is_standard else ()
    is_open = any(each.option == onnx.defs.OpSchema.FormalParameterOption.Variadic for each in formal)
    words = {"": "left out"} if is_open else {}
    words |= {name: "empty" for name, size in sizes.items() if not size}
    return [f"input {place} {words[name]}" for place, name in enumerate(node.input) if name in words][:1]


TYPE_ATTRIBUTES = frozenset(("to", "dtype", "output_dtype"))
"""The attributes that name an element type by its number."""


def _attribute(attribute: onnx.AttributeProto) -> str:
    value = onnx.helper.get_attribute_value(attribute)
    if attribute.name in TYPE_ATTRIBUTES:
        return dtype_name(value)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def expectation_of(case: Case, verdict: Verdict, backend: str, tolerance: Tolerance) -> Expectation:
    """The claim of a verdict on a case; raises `UserError` for a failure that plain runs do not show."""
    project = project_of(backend)
    runner = project.runner(backend, case.format)
    tells = runner.tells if runner else frozenset[str]()
    told = language_of(case.format).interpreted(case, verdict)
    return expect(verdict, tolerance, project, names_of_case(case), tells, told)


def claim_of(case: Case, verdict: Verdict, judged: Judge | Options) -> Claim:
    """The claim that a script shows of a case, still without its title; raises `UserError` as above."""
    backend, tolerance = judged.target.backend, tolerance_showing(verdict, judged.tolerance)
    expectation = expectation_of(case, verdict, backend, tolerance)
    seconds = judged.limits.cpu_seconds + 10 + runner_of(backend, case.format).slow
    return Claim(expectation, "", tolerance, seconds, judged.limits.memory_bytes)


def bug_title(verdict: Verdict, case: Case, passes: Sequence[str]) -> str:
    """The title of a reduced case's bug; of what no plain runs show, the verdict's own line."""
    try:
        tolerance = tolerance_showing(verdict, _TOLERANCE)
        expectation = expectation_of(case, verdict, case.target.backend if case.target else "", tolerance)
    except UserError:
        return with_operators(verdict.title, case.measure.ops)
    return title_of(expectation, operators_of(case), passes, tolerance)


def _effect(expectation: Expectation, tolerance: Tolerance, needed: Sequence[str]) -> str:
    run = expectation.failing
    if expectation.memory:
        return f"{expectation.memory} {while_doing(run, expectation.project)}"
    if expectation.outcome is Outcome.CRASH:
        return f"{signal_text(run).partition(' ')[0]} {while_doing(run, expectation.project)}"
    if expectation.outcome is Outcome.EXCEPTION:
        return _said(run.error, run.message, needed)
    if expectation.outcome is Outcome.MISMATCH:
        return _difference(expectation, tolerance)
    if expectation.outcome is Outcome.PERF:
        return expectation.slowness
    return f"{expectation.outcome.value} {while_doing(run, expectation.project)}"


def _said(error: str, message: str, needed: Sequence[str]) -> str:
    """The function that throws, or the exception, and what it says; a needed pass is in the head."""
    parsed = parse_message(name_operators(without_instructions(message)))
    text = " ".join(scrub(parsed.rest if parsed.site else unwrap(parsed.rest)).split())
    text = WORDLESS.sub(r"check: \1", CHECKED.sub("", PREAMBLE.sub("", text)))
    text = CONTEXT.sub("", PREAMBLE.sub("", text))
    site = parsed.site.split()[-1] if parsed.site else ""
    if WRAPPED.search(message) and re.match(r"[A-Za-z_]\w*: ", text):
        return text
    who = f"{site} fails" if site and site.split("::")[0] not in needed else error
    return f"{who}: {text}" if text else who


def _difference(expectation: Expectation, tolerance: Tolerance) -> str:
    """The first two values that differ, or their types or shapes; the right one last."""
    passing = expectation.passing
    if passing is None or expectation.is_unstable:
        return WRONG.get(expectation.kind, f"wrong {expectation.kind}")
    for name, expected in passing.outputs.items():
        other = expectation.failing.outputs.get(name)
        found = next(filter(None, (_pair(*pair, tolerance) for pair in pairs_of(expected, other))), None)
        if found is not None:
            right, wrong = found[::-1] if expectation.is_baseline_wrong else found
            return f"{wrong} instead of {right}"
    return WRONG.get(expectation.kind, f"wrong {expectation.kind}")


def pairs_of(expected: Value, actual: Value) -> list[tuple[Value, Value]]:
    """Pair two results; of two sequences each item with its like."""
    if isinstance(expected, list) and isinstance(actual, list):
        return list(zip(expected, actual, strict=False))
    return [(expected, actual)]


def _pair(expected: Value, actual: Value, tolerance: Tolerance) -> tuple[str, str] | None:
    """Write two different results for a title; None if they are equal, or look equal."""
    if isinstance(expected, list) and isinstance(actual, np.ndarray):
        return "a sequence", "a tensor"
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return None
    if expected.dtype != actual.dtype:
        return expected.dtype.name, actual.dtype.name
    if expected.shape != actual.shape:
        return _shape(expected), _shape(actual)
    places = np.argwhere(differing(expected, actual, tolerance))
    if not len(places):
        return None
    pair = _number(expected[tuple(places[0])]), _number(actual[tuple(places[0])])
    return pair if pair[0] != pair[1] and max(map(len, pair)) <= MOST_NUMBER else None


def _shape(tensor: Tensor) -> str:
    return f"shape [{', '.join(map(str, tensor.shape))}]"


def _number(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, np.floating) else shown(value)


def _failing_of(run: Run, kinds: Sequence[str]) -> str:
    """The operator of the case that fails, as the message or the first line of the trace names it."""
    named = parse_message(run.message).op or parse_message(run.trace.partition("\n")[0]).op
    return named if named in kinds else _named_in(run.message, kinds)


def _named_in(message: str, kinds: Sequence[str]) -> str:
    """The one operator of the case that a message names; empty where it names none or several."""
    named = [kind for kind in kinds if re.search(rf"(?<![\w.]){re.escape(kind)}(?!\w)", message)]
    return named[0] if len(named) == 1 else ""


def _where(expectation: Expectation) -> str:
    """The configuration that the failure shows in, beside one without; empty where that is plain."""
    if expectation.is_unstable or expectation.is_by_chance or expectation.passing is None:
        return ""
    if expectation.is_baseline_wrong:
        return " without optimisation"
    return only_with(expectation.failing.config, expectation.passing.config, expectation.project)
