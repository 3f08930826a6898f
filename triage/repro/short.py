"""The short script of a report: some thirty lines that a maintainer pastes, and the bug as a test.

Both build the program, run it and assert what should hold, so they fail before a fix and pass after it. The
parts that run it are the project's (`ShortScript`); what is asserted is the same for all.
"""

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from corpus.case import Case
from corpus.values import Value
from oracles.numerics.compare import Tolerance
from oracles.verdict import Outcome, Run
from triage.claim import ACCEPTED, Claim, Expectation, has_floats, signal_text
from triage.language import language_of, model_of
from triage.projects import Runner, ShortScript, runner_of
from triage.repro.model_code import NotExpressible, parsed_code
from triage.repro.script import WITH_SHAPE, fixed_types
from triage.repro.source import Source, array_code
from triage.titles import whose
from triage.views.rendering import as_comment, template_of

AT_A_GLANCE = 40
"""Lines of a script that stands in an issue as it is; a longer one is folded."""
WIDE = 400
MOST_LINES = 120
MOST_LINE = 2_000
MOST_BYTES = 4096
"""Bytes of a model that a script may hold as base64."""
MOST_REMARK = 70
SHOWN = (Outcome.CRASH, Outcome.EXCEPTION, Outcome.MISMATCH)
"""The outcomes that such a script can show by itself."""


def is_at_a_glance(script: str) -> bool:
    """Whether a script is short enough to be read as it stands in an issue."""
    lines = script.splitlines()
    return len(lines) <= AT_A_GLANCE and max(map(len, lines), default=0) <= WIDE


@dataclass(frozen=True)
class ShortScripts:
    """The script that stands in the text of an issue, and the bug as a test; empty where there is none."""

    script: str = ""
    test: str = ""
    dies: str = ""


def short_scripts(case: Case, claim: Claim, source: Source | None) -> ShortScripts:
    """Write both scripts; none where the case cannot be shown in so few lines by running it once or twice."""
    expectation = claim.expectation
    runner = runner_of(case.target.backend if case.target else "ort", case.format)
    if runner.short is None or expectation.outcome not in SHOWN or expectation.is_unstable or case.external:
        return ShortScripts()
    if expectation.misuse:  # closed pages take more lines
        return ShortScripts()
    try:
        parts = _parts(case, claim, runner, source)
    except NotExpressible:
        return ShortScripts()
    script = parts.script(runner, source)
    lines = script.splitlines()
    if len(lines) > MOST_LINES or max(map(len, lines)) > MOST_LINE:
        return ShortScripts()
    test = parts.test(runner.short, name_of(case, expectation))
    return ShortScripts(script, test, runner.short.dies)


def name_of(case: Case, expectation: Expectation) -> str:
    """The name of a test: of its operators and of what goes wrong, such as `test_div_mul_mismatch`."""
    operators = list(dict.fromkeys(re.split(r"[.:]", name)[-1] for name in case.measure.ops))[:3]
    words = re.findall(r"[a-z0-9]+", " ".join([*operators, expectation.outcome.value]).lower())
    return "_".join(["test", *words])


@dataclass(frozen=True)
class _Parts:
    """The pieces that the script and the test are put together from."""

    imports: str
    program: str
    body: str

    def script(self, runner: Runner, source: Source | None) -> str:
        assert runner.short is not None
        text = "\n".join((self.imports, "", self.program, "", self.body))
        needs = [*runner.needs, *(["numpy"] if "import numpy" in self.imports else [])]
        if f"import {runner.short.builds}" in self.imports.splitlines():
            needs.append(f"{runner.short.builds} to build the model")
        return _squeezed(f"# Needs {', '.join(needs)}\n{text}")

    def test(self, short: ShortScript, name: str) -> str:
        """The same statements, as the project writes its tests."""
        in_body = "class " not in self.program
        body = f"{self.program}\n{self.body}" if in_body else self.body
        title = "".join(word.capitalize() for word in name.split("_"))
        template = short.test or PLAIN_TEST
        fields = {"program": "" if in_body else self.program, "body": _squeezed(body).rstrip()}
        text = template_of(template).render(imports=self.imports, name=name, title=title, **fields)
        return re.sub(r"[ \t]+\n", "\n", re.sub(r"\n{4,}", "\n\n\n", text)).strip() + "\n"


PLAIN_TEST = """\
{{ imports }}

{{ program }}


def {{ name }}():
{{ body | indent(4, true) }}
"""


def _squeezed(text: str) -> str:
    return re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", text)).strip() + "\n"


def _parts(case: Case, claim: Claim, runner: Runner, source: Source | None) -> _Parts:
    short, expectation = runner.short, claim.expectation
    assert short is not None
    settings = runner.settings(expectation.to_show(case))
    has_model = language_of(case.format).has_model and source is None
    code, model = _model(case, runner) if has_model else ("", "")
    given = {"source": source, "code": code, "model": model, **settings}
    given |= {"inputs": _inputs(case) if has_model else "", "with_shape": WITH_SHAPE}
    program = template_of(short.program).render(given).strip()
    run = template_of(short.run).render(given).strip()
    body = f"{run}\n\n{_checked(case, claim, short, settings)}"
    imports = _imports(template_of(short.imports).render(given), f"{program}\n{body}")
    return _Parts(imports, program, body)


def _model(case: Case, runner: Runner) -> tuple[str, str]:
    """The statements that make the model, and the expression that a session or an importer takes."""
    is_onnx_taken = runner.has_onnx
    try:
        code = parsed_code(model_of(case))
        if max(map(len, code.splitlines())) <= MOST_LINE:
            return f"model = {code}", "model" if is_onnx_taken else "model.SerializeToString()"
    except NotExpressible:
        pass
    if len(case.program) > MOST_BYTES:
        raise NotExpressible("a model of many bytes")
    model = "onnx.load_model_from_string(model)" if is_onnx_taken else "model"
    return f"model = {bytes_code(case.program)}", model


def bytes_code(content: bytes) -> str:
    """Bytes as the expression that decodes them from base64."""
    text = base64.b64encode(content).decode()
    lines = "".join(f'    "{text[at : at + 96]}"\n' for at in range(0, len(text), 96))
    return f"base64.b64decode(\n{lines})"


def _imports(own: str, code: str) -> str:
    """The imports of a project's part, and what else the code uses."""
    standard = ["import base64"] if "base64." in code and "import base64" not in own else []
    math = [name for name in ("inf", "nan") if re.search(rf"(?<![\w.\"']){name}\b", code)]
    standard += [f"from math import {', '.join(math)}"] if math and "from math" not in own else []
    lines = own.strip().splitlines()
    lines += ["import numpy as np"] if "np." in code and "import numpy as np" not in lines else []
    lines += ["import onnx"] if re.search(r"(?<![\w.])onnx\.", code) else []
    own_standard = lines[: lines.index("") + 1] if "" in lines else []
    ordered = sorted(lines[len(own_standard) :], key=lambda line: line.split()[1])
    return "\n".join([*standard, *([""] if standard else []), *own_standard, *ordered])


def _inputs(case: Case) -> str:
    """The dictionary of inputs that a session takes; one on a line where they are long."""
    given = {name: value for name, value in case.inputs.items() if value is not None}
    items = [f"{name!r}: {_value(value)}" for name, value in given.items()]
    line = f"{{{', '.join(items)}}}"
    return line if len(line) <= 90 else "{\n" + "".join(f"    {item},\n" for item in items) + "}"


def _value(value: Value) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(array_code, value))}]"
    if value is None:
        raise NotExpressible("an absent optional")
    return array_code(value)


def _checked(case: Case, claim: Claim, short: ShortScript, settings: Mapping[str, Any]) -> str:
    """The statements that run the program and assert what should hold."""
    expectation = claim.expectation
    failing = short.call(settings, expectation.failing_label)
    if expectation.kind == ACCEPTED:
        why = repr(f"accepted, although {as_comment(expectation.contradiction)}")
        return f"try:\n    {failing}\nexcept Exception:\n    pass\nelse:\n    raise AssertionError({why})"
    if expectation.contradiction:
        return "\n".join([f"actual = {failing}", *_declared(case, expectation)])
    remark = _remark(expectation, is_apart=bool(short.dies))
    expected = _expected(expectation, short, settings)
    if not expected:
        return f"{failing}{remark}"
    calls = (expected, failing)
    passing = expectation.passing
    if expectation.is_baseline_wrong and passing is not None and _is_run(passing, short):
        calls = (failing, expected)
    return _compared(expectation, claim.tolerance, short, calls, remark)


def _declared(case: Case, expectation: Expectation) -> list[str]:
    """Assert the type and the dims of each output that is not as its operator's inputs fix it."""
    lines = []
    for place, (name, (element, sizes)) in enumerate(fixed_types(case).items()):
        value = expectation.failing.outputs.get(name)
        if not isinstance(value, np.ndarray):
            continue
        if sizes is not None and None not in sizes and value.shape != tuple(sizes):
            lines.append(f"assert actual[{place}].shape == {tuple(sizes)}, actual[{place}].shape")
        elif value.dtype.name != element:
            lines.append(f"assert actual[{place}].dtype.name == {element!r}, actual[{place}].dtype")
    if not lines:
        raise NotExpressible("no output is against its type")
    return lines


def _remark(expectation: Expectation, is_apart: bool) -> str:
    """The event behind a call that does not give a result; a compiler apart raises its own exception."""
    run = expectation.failing
    if expectation.outcome is Outcome.CRASH:
        return f"  # dies of {signal_text(run)}"
    if expectation.outcome is Outcome.EXCEPTION:
        error = "" if expectation.broken_rule or is_apart else as_comment(run.error)
        return f"  # raises {error[:MOST_REMARK]}".rstrip()
    return ""


def _is_run(passing: Run, short: ShortScript) -> bool:
    """Whether the script computes the expected values, rather than to hold them."""
    return not passing.config.backend and not short.holds


def _expected(expectation: Expectation, short: ShortScript, settings: Mapping[str, Any]) -> str:
    """The expression of the results that are expected; empty where nothing is known, or too much."""
    passing = expectation.passing
    if passing is None:
        return ""
    if _is_run(passing, short):
        return short.call(settings, expectation.passing_label)
    if not passing.outputs:
        return ""
    try:
        values = [_value(value) for value in passing.outputs.values()]
    except NotExpressible:
        if expectation.outcome is Outcome.MISMATCH:
            raise
        return ""
    if short.compares == "torch":
        values = [f"torch.from_numpy({value})" for value in values]
    return f"[{', '.join(values)}]"


def _compared(
    expectation: Expectation, tolerance: Tolerance, short: ShortScript, calls: Sequence[str], remark: str
) -> str:
    """The two results, the expected one first, and the assertion that they are the same."""
    passing = expectation.passing
    assert passing is not None
    is_held = not _is_run(passing, short)
    source = f"  # {whose(passing.config)}" if is_held and passing.config.backend else ""
    outputs = list(passing.outputs.values())
    floats = has_floats(outputs)
    if short.compares == "torch":
        expected, actual = calls
        rtol, atol = (tolerance.rtol, tolerance.atol) if floats else (0, 0)
        lines = [
            f"torch.testing.assert_close(actual, expected, rtol={rtol:g}, atol={atol:g}, equal_nan=True)"
        ]
    else:
        expected, actual = map(_first, calls) if len(outputs) == 1 else calls
        lines = _for_each(outputs, _assertion(expectation, tolerance, floats))
    return "\n".join((f"expected = {expected}{source}", f"actual = {actual}{remark}", *lines))


def _first(call: str) -> str:
    """The expression of the only result of a call, or of a list."""
    return call[1:-1] if call.startswith("[") else f"{call}[0]"


def _for_each(outputs: Sequence[Value], check: str) -> list[str]:
    """The check of a single array; of each in turn where there are several."""
    if len(outputs) == 1 and not isinstance(outputs[0], list):
        return [check.format("actual", "expected")]
    loop = "for one, other in zip(actual, expected, strict=True):"
    return [loop, "    " + check.format("one", "other")]


def _assertion(expectation: Expectation, tolerance: Tolerance, floats: bool) -> str:
    """The assertion about two arrays, whose names are left open."""
    kind = expectation.kind
    if kind in ("shape", "dtype"):
        return f"assert {{0}}.{kind} == {{1}}.{kind}, f'{{{{{{0}}.{kind}}}}} instead of {{{{{{1}}.{kind}}}}}'"
    if floats:
        return f"np.testing.assert_allclose({{0}}, {{1}}, rtol={tolerance.rtol:g}, atol={tolerance.atol:g})"
    return "np.testing.assert_array_equal({0}, {1})"


def shows(claim: Claim, dies: str = "") -> Callable[[int, str], bool]:
    """The test of a short script's exit code and text for the claim; `dies` as in `ShortScript`."""
    expectation = claim.expectation

    def is_shown(code: int, text: str) -> bool:
        if expectation.outcome is Outcome.CRASH:
            return code < 0 or code > 128 or bool(dies and re.search(dies, text))
        wanted = "AssertionError"
        if expectation.outcome is Outcome.EXCEPTION:
            wanted = expectation.fragment or expectation.failing.error
        return code == 1 and " ".join(wanted.split()) in " ".join(text.split())

    return is_shown
