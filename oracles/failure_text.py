"""Reading a failure out of raw text: a traceback, a log, the last words of a process."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from oracles.normalise import function_name

_SIGNALS = {
    "Floating point exception": "SIGFPE",
    "Segmentation fault": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL",
}
_EXITS = {124: "timeout", 132: "SIGILL", 134: "SIGABRT", 135: "SIGBUS", 136: "SIGFPE", 139: "SIGSEGV"}
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_EXIT = re.compile(r"\n?\[exit (\d+)\]\s*$")
_FATAL = re.compile(r"^Fatal Python error: (.+)$", re.M)
_CURRENT_FRAME = re.compile(r'^Current thread .*\n((?:  File "[^"\n]+", line \d+ in .+\n?)+)', re.M)
_FAULT_FRAME = re.compile(r'  File "([^"\n]+)", line \d+ in (.+)')
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*)(?::[ \t]*(.*))?$", re.M)
_NATIVE_FRAME = re.compile(r'^ *File "[^"\n]*?([\w.+-]+\.(?:cc|cpp|h|cu))", line \d+, in (.+)$', re.M)
_PACKAGE = re.compile(r"/site-packages/(onnxruntime|onnx|tvm|torch)/")
_TOLD = re.compile(r"^Error message: (.+)$", re.M)
_WRAPPED = re.compile(r"got (\w+)\((['\"])(.*)\2\)")
_DIAGNOSTIC = re.compile(r"^\s*(?:error|Error): (.+)$", re.M)
_LOG_LINE = re.compile(r"^(?:[EWIF]\d{4} .*|\[\d\d:\d\d:\d\d\] .*|\d{4}-\d\d-\d\d .*)\n?", re.M)


@dataclass(frozen=True, slots=True)
class FailureText:
    """A failure as its text tells it: the signal or the exception's leaf class, its words, its place."""

    kind: str
    message: str
    site: str
    is_crash: bool
    package: str = ""


def read_failure(text: str) -> FailureText:
    text = _ANSI.sub("", text)
    code = _EXIT.search(text)
    text = _EXIT.sub("", text)
    signal = _signal(text, int(code.group(1)) if code else 0)
    if signal:
        return FailureText(signal, "", _current_function(text), True, _package(text))
    return replace(_read_exception(_LOG_LINE.sub("", text) or text), package=_package(text))


def _package(text: str) -> str:
    """The framework whose files the text names last; most frameworks wrap others, not the reverse."""
    named = _PACKAGE.findall(text)
    return str(named[-1]) if named else ""


def _signal(text: str, code: int) -> str:
    fatal = _FATAL.search(text)
    if fatal:
        return _SIGNALS.get(fatal.group(1), fatal.group(1))
    return _EXITS.get(code, "")


def _current_function(text: str) -> str:
    """The innermost Python function of the thread that died."""
    block = _CURRENT_FRAME.search(text)
    frames = _FAULT_FRAME.findall(block.group(1)) if block else []
    return (
        f"{frames[0][0].rsplit('/', 1)[-1]} {frames[0][1]}"
        if frames and "/site-packages/" in frames[0][0]
        else ""
    )


def _read_exception(text: str) -> FailureText:
    start = text.rfind("Traceback (most recent call last)")
    tail = text[max(start, 0) :]
    raised = [match for match in _EXCEPTION.finditer(tail) if match.group(2) is not None or start >= 0]
    if not raised:
        diagnostic = _DIAGNOSTIC.search(text)
        return FailureText("", diagnostic.group(1) if diagnostic else text.strip()[-400:], "", False)
    last = raised[-1]
    site = native_site(tail[: last.start()])
    return FailureText(last.group(1), _words(last.group(2) or "", tail[last.start() :]), site, False)


def native_site(trace: str) -> str:
    """`file.cc Class::Method` of the innermost native frame in a Python traceback; "" where it has none."""
    native = _NATIVE_FRAME.findall(trace)
    if not native:
        return ""
    file, signature = native[-1]
    return f"{file} {function_name(signature.partition(' [with ')[0])}"


def _words(message: str, tail: str) -> str:
    """What the exception says, or the cause that it quotes."""
    told = _TOLD.search(tail)
    if told:
        return told.group(1)
    wrapped = _WRAPPED.search(tail)
    return f"{wrapped.group(1)}: {wrapped.group(3)}" if wrapped else message
