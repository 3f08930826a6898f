"""Reading a failure out of raw text: a traceback, a log, the last words of a process.

A log puts the time or the process before each line, a reply to an issue `>`, pytest `E`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from oracles.normalise import COMPILER, function_name, strip_brackets

_QUOTED = re.compile(r"> ?")
MOST_OF_THEM = 0.8
_TRACEBACK = re.compile(r"^(.*)Traceback \(most recent call last\):", re.M)
_WINDOWS = re.compile(r"(?:\w:)?(?:\\[\w.+-]+){2,}")
_OF_PYTEST = re.compile(r"^E   ", re.M)


def as_written(text: str) -> str:
    """Take a text out of a log or a quotation; one that stands in neither comes back as it is."""
    text = _WINDOWS.sub(lambda path: path.group().replace("\\", "/"), text.replace("\r\n", "\n"))
    return _set_out(_of_pytest(_without(_QUOTED, text)))


def _set_out(text: str) -> str:
    """The traceback without what stands before each of its lines, times and numbers in it being any."""
    start = _TRACEBACK.search(text)
    if start is None or not start.group(1):
        return text
    before = re.compile(re.sub(r"\d+", r"\\d+", re.escape(start.group(1))))
    rest = text[start.start() :]
    if _without(before, rest) is rest:
        return text
    lines = [before.sub("", line, count=1) if before.match(line) else line for line in text.splitlines()]
    is_quoted = start.group(1).endswith('"')
    return "\n".join(line.removesuffix('"') if is_quoted else line for line in lines)


def _without(stamp: re.Pattern[str], text: str) -> str:
    """The lines without the stamp, where most of those that say anything have it."""
    lines = text.splitlines()
    said = [line for line in lines if line.strip()]
    stamped = sum(1 for line in said if stamp.match(line))
    if not said or stamped < MOST_OF_THEM * len(said):
        return text
    return "\n".join(stamp.sub("", line, count=1) for line in lines)


def _of_pytest(text: str) -> str:
    """The error that pytest shows, without the source around it."""
    marked = [line for line in text.splitlines() if _OF_PYTEST.match(line)]
    return "\n".join(line[4:] for line in marked) if len(marked) > 1 else text


_FRAMES = (
    re.compile(r"^\s*#\d+\s+(?:0x[0-9a-fA-F]+\s+)?(?:in )?(.+)$", re.M),
    re.compile(r"^(?:PC:|\s*)\s*@\s+0x[0-9a-fA-F]+\s+(?:\d+\s{2,})?(.+)$", re.M),
    re.compile(r'^\s+File "[^"\n]*", line \d+, in (.+)$', re.M),
)
_WHERE = re.compile(
    r"\s+(?:at|from) \S+$"  # gdb
    r"|\s+/?[\w.+@~/\\-]+\.\w+(?::\d+)+$"  # a sanitizer with symbols
    r"|\s+\(\S+\+0x[0-9a-fA-F]+\)(?: \(BuildId: \w+\))?$"  # and without
)
_GLUE = re.compile(
    r"""\?\?|\W.*|0x\w+|__.*|_start|_?main|std::.*|operator\ ?(?:new|delete).*|clone3?|start_thread|backtrace
    |mem(?:cpy|move|set|cmp)|str(?:len|cpy|cmp)|malloc|calloc|realloc|free|cfree|_int_(?:free|malloc)
    |raise|abort|kill|pthread_\w+|gsignal|tgkill|llvm::sys::.*|\w*[Ss]ig[Aa]ction\w*
    |absl::.*|google::.*|.*[Bb]ack_?[Tt]race.*|.*[Ss]ignal_?[Hh]andler.*|.*SegFaultHandler.*
    """,
    re.X,
)
_SAYS = (
    re.compile(r"received signal (SIG\w+)"),
    re.compile(r"terminated with signal (SIG\w+)"),
    re.compile(r"^\*\*\* (SIG\w+)", re.M),
    re.compile(r"Sanitizer: ([\w-]+) on "),
    re.compile(r"^!+ (Segfault) encountered !+$", re.M),
    re.compile(
        r"^(?:\S*sh: )?(?:line \d+: +\d+ )?(Segmentation fault|Aborted|Bus error|Illegal instruction|"
        r"Floating point exception)(?: *\(core dumped\).*)?$",
        re.M,
    ),
)
_SIGNALS = {
    "Floating point exception": "SIGFPE",
    "Segmentation fault": "SIGSEGV",
    "Segfault": "SIGSEGV",
    "SEGV": "SIGSEGV",
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL",
}


def signal_said(text: str) -> str:
    """The signal that a debugger, a sanitizer, a handler or the shell names; "" where none does."""
    for pattern in _SAYS:
        if found := pattern.search(text):
            return signal_called(found.group(1))
    return ""


def signal_called(words: str) -> str:
    """The signal that goes by these words; other words are what they are."""
    return _SIGNALS.get(words, words)


def crashed_function(text: str) -> str:
    """`Class::Method` of the innermost frame that is no glue (libc, std, handlers); "" without one."""
    return next(_functions(text), "")


def _functions(text: str) -> Iterator[str]:
    for pattern in _FRAMES:
        for line in pattern.findall(text):
            signature = _WHERE.sub("", line)
            bare = strip_brackets(strip_brackets(signature, "<", ">"), "(", ")").split()
            qualified = next((word for word in reversed(bare) if word not in ("const", "[clone")), "")
            if qualified and not _GLUE.fullmatch(qualified):
                yield function_name(signature)


_EXITS = {124: "timeout", 132: "SIGILL", 134: "SIGABRT", 135: "SIGBUS", 136: "SIGFPE", 139: "SIGSEGV"}
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_EXIT = re.compile(r"\n?\[exit (\d+)\]\s*$")
_FATAL = re.compile(r"^Fatal Python error: (.+)$", re.M)
_CURRENT_FRAME = re.compile(r'^Current thread .*\n((?:  File "[^"\n]+", line \d+ in .+\n?)+)', re.M)
_FAULT_FRAME = re.compile(r'  File "([^"\n]+)", line \d+ in (.+)')
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*([A-Z]\w*)(?::[ \t]*(.*))?$", re.M)
_NATIVE_FRAME = re.compile(r'^ *File "[^"\n]*?([\w.+-]+\.(?:cc|cpp|h|cu))", line \d+, in (.+)$', re.M)
_NATIVE_FILE = re.compile(r'^ *File "[^"\n]*?([\w.+-]+\.(?:cc|cpp|h|cu))", line \d+$', re.M)
_NUMBERED = re.compile(r"^ +\d+: ((?:\w+::)+.+)$", re.M)
_PACKAGE = re.compile(
    r"[/\\](?:site|dist)-packages[/\\](onnxruntime|onnx|tvm|torch)[/\\]"
    r"|[/\\](onnxruntime)[/\\]capi[/\\]|/python/(tvm)/|/(torch)/(?:_[a-z]+|nn|fx|utils)/"
)
_MENTIONED = re.compile(r"\b(onnxruntime|tvm|torch)(?:::|\.)\w|\b(ONNXRuntime)Error\b|\b(Ort)::")
_PACKAGES = {"ONNXRuntime": "onnxruntime", "Ort": "onnxruntime"}
_UNCAUGHT = re.compile(
    r"^terminate called after throwing an instance of '(?:Ort|c10|tvm|dmlc|torch)::(?:\w+::)*(\w+)'\n"
    r"\s*what\(\):\s+(.+)$",
    re.M,
)
"""A framework's own exception that a C++ program did not catch: its words count, not that all aborts."""
_WRAPPERS = ("InductorError", "BackendCompilerFailed")
_INNER = re.compile(r"([A-Z]\w+): (.+)", re.S)
_TOLD = re.compile(r"^Error message: (.+)$", re.M)
_WRAPPED = re.compile(r"got (\w+)\((['\"])(.*)\2\)")
_POINTED = re.compile(r"^at \d+:\d+:$")
_CARET = re.compile(r"^ *\^+\n(.+)$", re.M)
_RUNNING = re.compile(r"^Failed running \w+ .*:$")
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
    """A failure read out of raw text: exception or signal, message, frames."""
    text = as_written(_ANSI.sub("", text))
    code = _EXIT.search(text)
    text = _EXIT.sub("", text)
    uncaught = _UNCAUGHT.search(text)
    if uncaught:
        return FailureText(uncaught.group(1), uncaught.group(2), "", False, _package(text))
    signal = _signal(text, int(code.group(1)) if code else 0)
    if signal:
        site = crashed_function(text) or _current_function(text)
        return FailureText(signal, "", site, True, _package(text))
    return replace(_read_exception(_LOG_LINE.sub("", text) or text), package=_package(text))


def _package(text: str) -> str:
    """The framework whose files the text names last; most frameworks wrap others, not the reverse.

    Where it names no file, the one whose classes or namespaces it mentions last.
    """
    named = _PACKAGE.findall(text) or _MENTIONED.findall(text)
    last = next(filter(None, named[-1])) if named else ""
    return _PACKAGES.get(last, last)


def _signal(text: str, code: int) -> str:
    fatal = _FATAL.search(text)
    return signal_called(fatal.group(1)) if fatal else signal_said(text) or _EXITS.get(code, "")


def _current_function(text: str) -> str:
    """The innermost Python function of the thread that died."""
    block = _CURRENT_FRAME.search(text)
    innermost = _FAULT_FRAME.search(block.group(1)) if block else None
    path, function = innermost.groups() if innermost else ("", "")
    return f"{path.rsplit('/', 1)[-1]} {function}" if "/site-packages/" in path else ""


def _read_exception(text: str) -> FailureText:
    start = text.rfind("Traceback (most recent call last)")
    tail = text[max(start, 0) :]
    raised = [match for match in _EXCEPTION.finditer(tail) if _is_exception(match, start >= 0)]
    if not raised:
        diagnostic = _DIAGNOSTIC.search(text)
        return FailureText("", diagnostic.group(1) if diagnostic else text.strip()[-400:], "", False)
    last = raised[-1]
    kind, message = _unwrap(last.group(1), _words(last.group(2) or "", tail[last.start() :]))
    return FailureText(kind, message, native_site(tail[: last.start()]), False)


def _is_exception(match: re.Match[str], in_traceback: bool) -> bool:
    """A heading such as `Output:` is none: an exception without words is printed without a colon."""
    if match.group(2) is None:
        return in_traceback
    return bool(match.group(2)) or "." in match.group() or match.group(1).endswith(("Error", "Exception"))


def _unwrap(kind: str, message: str) -> tuple[str, str]:
    """The exception that a compiler's driver raised again under its own name."""
    inner = _INNER.fullmatch(message) if kind in _WRAPPERS else None
    return (inner.group(1), inner.group(2)) if inner else (kind, message)


def native_site(trace: str) -> str:
    """`file.cc Class::Method` of the innermost native frame in a Python traceback; "" where it has none.

    TVM's older traces number the functions, the innermost last, and name the file of the check alone.
    """
    native = _NATIVE_FRAME.findall(trace)
    if native:
        file, signature = native[-1]
        return f"{file} {function_name(signature.partition(' [with ')[0])}"
    files, numbered = _NATIVE_FILE.findall(trace), _NUMBERED.findall(trace)
    functions = [each for each in numbered if "LogFatal" not in each]
    return f"{files[-1]} {function_name(functions[-1])}" if files and functions else ""


_ANYWHERE = re.compile(r"\w*|(?:\w+: )?(?:(?:tuple|list) index out of range|pop from empty \w+)")
_PYTHON_FRAME = re.compile(r'^  File "(?:[^"\n]*/)?([^"\n]+)", line \d+, in (.+)$', re.M)
_CHAINED = re.compile(r"^(?:The above exception was|During handling of the above)", re.M)


def wordless_site(text: str, trace: str) -> str:
    """`file.py function` that raised the first exception of a traceback, if its text has no words of its own.

    Any place may raise an `AssertionError` without words, or Python's own `IndexError`; "" of any other text.
    """
    if not _ANYWHERE.fullmatch(text.strip(" :.\n")):
        return ""
    frames = _PYTHON_FRAME.findall(_CHAINED.split(trace, maxsplit=1)[0])
    return " ".join(frames[-1]) if frames else ""


def _words(message: str, tail: str) -> str:
    """The words of the exception, or of the cause that it quotes."""
    told = _TOLD.search(tail) or COMPILER.search(tail)
    told = told or (_CARET.search(tail) if _POINTED.search(message.split(": ", 1)[-1]) else None)
    if told:
        return told.group(1)
    wrapped = _WRAPPED.search(tail)
    if wrapped:
        return f"{wrapped.group(1)}: {wrapped.group(3)}"
    following = tail.split("\n", 2)[1:2]
    return following[0] if following and _RUNNING.match(message) else message
