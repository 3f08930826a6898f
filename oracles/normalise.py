"""A failure's text without what changes from run to run: names, numbers, shapes, paths, addresses."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_MAX_TEMPLATE = 400
_DTYPE_NAMES = """
    float16 float32 float64 bfloat16 int4 int8 int16 int32 int64 uint4 uint8 uint16 uint32 uint64 complex64
    complex128 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz float4e2m1
"""
_DTYPES = frozenset(_DTYPE_NAMES.split())
_WRAPPING = tuple(
    re.compile(pattern)
    for pattern in (
        r"\[[A-Z]:onnxruntime:[^\]]*\]\s*",
        r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ",
        r"Exception during initialization: ",
        r"Load model from .+? failed:\s*",
        r"backend='\w+' raised:\s*",
        r"Non-zero status code returned while running \S+ node\. ?Name:'[^']*' ?Status Message: ",
        r"(?s)\s*\bSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace.*",
        r"(?s)\s*\bWhile executing %\w+ : .*",
    )
)
"""What onnxruntime and dynamo put before and behind a message on its way to the caller."""
_INSTRUCTIONS = (r"(?m)^\s*%\S+ = .*\n?", r"(?m)^\s*(?:call|store|ret|br) .*%.*\n?")
"""Lines of LLVM's code."""
_DROPPED: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\x1b\[[0-9;]*[A-Za-z]", ""),
        (r"(?m)^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,\d]*\s*", ""),
        (r"(?m)^\[\d\d:\d\d:\d\d\]\s*", ""),
        (r"(?m)^[EWIF]\d{4} \d\d:\d\d:\d\d\.\d+ \d+ \S+?:\d+\]\s*(\[\d+/\d+\]\s*)?", ""),
        *((pattern, "") for pattern in _INSTRUCTIONS),
        (r"(?s)\s*Error in pass: .*", ""),  # TVM's picture of the module
        (r"0x[0-9a-fA-F]+", "<address>"),
        (r"(?<![\w<])(?:/[\w.+@~-]+)+/(?=[\w.+-]+\.\w+)", ""),
    )
)
_NAMES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"has no attribute '(\w+)'", r"has no attribute \1"),  # the compiler's own word, no model's
        (r"(?!(?<=\w)'[st]\b)'(?!tensor\(|seq\(|optional\()[^'\n]*'", "'*'"),  # but not "doesn't … isn't"
        (r'"(?!tensor\(|seq\(|optional\()[^"\n]*"', '"*"'),
        (
            r"\b([Nn]ode|arg|parameter|name|input|output|initializer)( ?:? ?)\((?!tensor\()[^()\n]*\)",
            r"\1\2(*)",
        ),
        (r"\b([Nn]ode|[Nn]ame|output|input|initializer|value): ?[^\s,;]+?(?=[.,;]?(?:\s|$))", r"\1: *"),
    )
)
_NUMBER_LIST = re.compile(r"([\[({])\s*#?(?:\s*[,x ]\s*#)*,?\s*([\])}])")


def template(text: str, names: Iterable[str] = ()) -> str:
    """Keep what stays of a message when a model is renamed, resized, reordered and rebuilt.

    `names` are the model's own (nodes and values): they are dropped wherever they stand as whole words.
    """
    text = unwrap(name_operators(text))
    for pattern, replacement in _DROPPED:
        text = pattern.sub(replacement, text)
    text = _drop_names(text, names)
    for pattern, replacement in _NAMES:
        text = pattern.sub(replacement, text)
    text = re.sub(r"\b([Nn]ode) \*(?= cannot\b)", r"\1", text)  # a node may have no name
    text = strip_brackets(text, "<", ">") if "::" in text else text
    text = _without_ir(text)
    text = re.sub(r"(\.(?:cc|cpp|cu|h|hpp|py|pxi)):\d+", r"\1", text)
    text = re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text)
    text = re.sub(r"[\w$]*\d[\w$]*(?:\.\d[\w$]*)*", _number, text)
    text = re.sub(r"(?<![\w'(.-])[b-z](?![\w'.-])", "#", text)
    text = re.sub(r"(?<![\w*)\]])[-+](?=#)", "", text)
    text = _NUMBER_LIST.sub(r"\1#\2", text)
    text = re.sub(r"[#*]+", "*", text)
    return re.sub(r"\s+", " ", text).strip(" .:")[:_MAX_TEMPLATE]


def unwrap(text: str) -> str:
    """A message without its code, the node that was running and what else was put before it."""
    for pattern in _WRAPPING:
        text = pattern.sub("", text)
    return text


def without_instructions(text: str) -> str:
    """A message of LLVM's without the code that it quotes."""
    for pattern in _INSTRUCTIONS:
        text = re.sub(pattern, "", text)
    return text


_RENDERED_OPERATOR = re.compile(r"\b(?:ir\.)?Op\(span=.*?\bname=\"([\w.]+)\".*?support_level=\d+\)")


def name_operators(text: str) -> str:
    """TVM prints all that it knows of an operator: its name is enough."""
    return _RENDERED_OPERATOR.sub(r"\1", text)


_IR_CALL = re.compile(r"\b[RT]\.[\w.]+\(")


def _without_ir(text: str) -> str:
    """TVMScript keeps what is called, `R.add(…)`, and loses the operands, which change as a case shrinks."""
    found = _IR_CALL.search(text)
    if found is None:
        return text
    depth, end = 1, found.end()
    while end < len(text) and depth:
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    return f"{text[: found.end()]}){_without_ir(text[end:])}"


def _number(match: re.Match[str]) -> str:
    word = match.group()
    return word if word.lower() in _DTYPES else "#"


def _drop_names(text: str, names: Iterable[str]) -> str:
    present = sorted((name for name in names if len(name) > 1 and name in text), key=len, reverse=True)
    for name in present:
        text = re.sub(rf"(?<![\w/.]){re.escape(name)}(?![\w/])", "*", text)
    return text


def strip_brackets(text: str, opening: str, closing: str) -> str:
    """Without every balanced bracket and what it holds; unbalanced ones stay."""
    pattern = re.compile(f"{re.escape(opening)}[^{re.escape(opening + closing)}]*{re.escape(closing)}")
    while (stripped := pattern.sub("", text)) != text:
        text = stripped
    return text


@dataclass(frozen=True, slots=True)
class Parsed:
    """One message taken apart: the C++ site (`file.cc Class::Method`), the innermost operator, the rest."""

    site: str
    op: str
    rest: str


_OPS = (
    re.compile(r"while running (\w+) node"),
    re.compile(r"Op \((\w+)\)"),
    re.compile(r"(?:an implementation|kernel) for (?:[\w.]+\.)?(\w+)\(\d+\)"),
    re.compile(r"operator \((\w+)\)"),
    re.compile(r"Error converting operator (\w+)"),
    re.compile(r"(\w+)\(-?\d+\) is not a registered function/op"),
    re.compile(r"While executing %.*? = call_\w+\[target=([\w.]+)\]"),
)
_SITE = re.compile(r"(?:^|(?<=[\s:]))(?:\S*/)?([\w.+-]+\.(?:cc|h|cpp|hpp|cu|cuh)):\d+ ")
_FUNCTION_WORD = re.compile(r"(?:operator\(\)|[A-Za-z_~]\w*)(?=\s|$)")


COMPILER = re.compile(r"^\S+:\d+:\d+: (?:fatal )?error: (.+)$", re.M)
"""The first complaint of a C++ compiler; the command and the source stand around it."""


def parse_message(message: str) -> Parsed:
    """Find the innermost C++ site and operator in a message.

    For a C++ compiler's output, its first complaint is the message.
    """
    told = COMPILER.search(message)
    if told:
        return Parsed("", "", f"{message.split(None, 1)[0]} {told.group(1)}")
    ops = [match for pattern in _OPS for match in pattern.finditer(message)]
    op = max(ops, key=lambda match: match.start()).group(1) if ops else ""
    sites = list(_SITE.finditer(message))
    if not sites:
        return Parsed("", op, message)
    file, tail = sites[-1].group(1), message[sites[-1].end() :]
    function, rest = split_function(tail)
    return Parsed(f"{file} {function}".strip(), op, rest)


def split_function(text: str) -> tuple[str, str]:
    """`virtual Status ns::Class::Method(args) const [with T = int] text` as (`Class::Method`, text)."""
    end = _end_of_signature(text)
    if end is None:
        word = _FUNCTION_WORD.match(text)
        return (word.group(), text[word.end() :].strip()) if word else ("", text)
    return function_name(text[:end]), _skip_qualifiers(text[end:])


def _end_of_signature(text: str) -> int | None:
    """The end of a leading C++ signature's parameter list; None if the text starts with none."""
    opening = text.find("(")
    if opening < 0 or not re.fullmatch(r"[\w:<>,&*~ \[\]=().{}]*", text[:opening]):
        return None
    if "::" not in text[:opening]:
        return None
    depth = 0
    for i in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0 and not text[i + 1 : i + 3].startswith(("::", "(")):
            return i + 1
    return None


def _skip_qualifiers(text: str) -> str:
    text = re.sub(r"^\s*(?:const|noexcept|&|&&)*\s*", "", text)
    if text.startswith("[with "):
        depth = 0
        for i, char in enumerate(text):
            depth += {"[": 1, "]": -1}.get(char, 0)
            if depth == 0:
                return text[i + 1 :].strip()
    return text


def function_name(signature: str) -> str:
    """`Class::Method` of a demangled signature: no return type, namespaces, templates, parameters."""
    parts = plain_function(signature).split("::")
    while len(parts) > 1 and parts[0] == parts[0].lower():
        parts = parts[1:]
    return "::".join(parts)


def plain_function(signature: str) -> str:
    """`space::Class::Method` of a demangled signature: no return type, templates, parameters."""
    bare = strip_brackets(strip_brackets(signature, "<", ">"), "(", ")").replace("[abi:cxx11]", "").strip()
    words = [
        word.lstrip("*&") for word in bare.split() if word not in ("const", "virtual", "static", "&", "*")
    ]
    return "::".join(part for part in (words[-1] if words else "").split("::") if part)
