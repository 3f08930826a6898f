"""A failure is read the same out of whatever log or quotation it stands in."""

from __future__ import annotations

import html
import json

import pytest

from oracles.text.failure_text import as_written, read_failure

TEXT = """Traceback (most recent call last):
  File "/opt/app/serve.py", line 12, in handle
    return session.run(None, feeds)
onnxruntime.capi.onnxruntime_pybind11_state.InvalidArgument: [ONNXRuntimeError] : 2 : INVALID_ARGUMENT : \
Non-zero status code returned while running FastGelu node. Name:'g' Status Message: Input 0 is too flat"""

LINES = TEXT.splitlines()
FORMS = {
    "container": "\n".join(f"2026-11-22T16:04:01.12Z stderr F {line}" for line in LINES),
    "journal": "\n".join(f"Nov 22 16:04:01 host serve[812]: {line}" for line in LINES),
    "compose": "\n".join(f"server-1  | {line}" for line in LINES),
    "quoted": "\n".join(f"> {line}" for line in ["Since the update:", "```", *LINES, "```"]),
    "structured": json.dumps({"level": "error", "error": {"stack": TEXT}}),
    "junit": f'<testcase><failure message="m">{html.escape(TEXT)}</failure></testcase>',
    "boxed": "\n".join(["╭─ Error ───╮", *(f"│ {line} │" for line in LINES), "╰───────────╯"]),
    "set in": "\n".join(["1. run it", "", *(f"        {line}" for line in LINES)]),
    "of fields": "\n".join(f'16:04:{at:02d}\tERROR\tserve\t"{line}"' for at, line in enumerate(LINES)),
    "rank": "\n".join(f"[rank0][serve]: {line}" for line in LINES),
    "windows": TEXT.replace("/", "\\").replace("\n", "\r\n"),
    "pytest": "\n".join(["    def test():", ">       run()", *(f"E   {line}" for line in LINES)]),
}


@pytest.mark.parametrize("form", sorted(FORMS))
def test_a_form_changes_nothing_of_what_is_read(form):
    assert read_failure(FORMS[form]) == read_failure(TEXT)


@pytest.mark.parametrize(
    "text", ["", "{", '{"a": 1}', "> one quoted line\nand one that is not", TEXT, "{}\n{"]
)
def test_what_stands_in_no_form_stays_as_it_is(text):
    assert as_written(text) == text
