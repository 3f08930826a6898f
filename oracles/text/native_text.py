"""The native stack of a crash in raw text: of gdb, a sanitizer, glog, LLVM or a framework's own handler."""

from __future__ import annotations

import re
from collections.abc import Iterator

from oracles.text.normalise import function_name, strip_brackets

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
    """Return the signal that a debugger, a sanitizer, a handler or the shell names; "" where none does."""
    for pattern in _SAYS:
        if found := pattern.search(text):
            return signal_called(found.group(1))
    return ""


def signal_called(words: str) -> str:
    """Return the signal that goes by these words; other words are what they are."""
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
