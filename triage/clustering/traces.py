"""Clusters of raw trace texts, by their text alone: never by file name, neighbours or order."""

import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from corpus.errors import UserError
from oracles.naming import Signature, signature_of_text
from oracles.text.failure_text import as_written, crashed_function
from oracles.text.normalise import template
from triage.clustering.linkage import average_linkage
from triage.clustering.similarity import MERGE, compare

_FRAME = re.compile(r'^ *File "([^"\n]+)", line (\d+),? in (\S+)', re.M)
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib/python\d")
_GENERATED = re.compile(r"[a-z0-9]{24,}\.py")
_LAST_WORDS = re.compile(
    r"^(?:.*(?:what\(\):|LLVM ERROR:|Check failed:|Assertion `)|"
    r"(?:free|malloc|realloc|munmap_chunk)\w*\(\):|double free|corrupted ).*$",
    re.M,
)
_NO_TRACES = (".md", ".json", ".onnx", ".npz")
MOST_BYTES = 4 << 20


def read_traces(folder: Path) -> dict[str, str]:
    """The texts in a folder, by file name; raises `UserError` where there are none."""
    if not folder.is_dir():
        raise UserError(f"{folder}: not a folder; name one that holds trace texts")
    found = sorted(path for path in folder.iterdir() if path.is_file() and _is_trace(path))
    if not found:
        raise UserError(f"{folder}: no trace texts in it; put each failure's text in a file of its own")
    return {path.name: _read(path) for path in found}


def _is_trace(path: Path) -> bool:
    return not path.name.startswith(".") and path.suffix not in _NO_TRACES


def _read(path: Path) -> str:
    """The end of a file, where a trace says what it has to say; bytes that are no UTF-8 are replaced."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - MOST_BYTES, 0))
        return file.read().decode("utf-8", "replace")


def cluster_traces(texts: Mapping[str, str]) -> dict[str, str]:
    """The cluster of each text, named after the smallest digest of the signatures in it."""
    signed = {name: trace_signature(text) for name, text in texts.items()}
    distinct = {each.digest: each for each in signed.values()}
    cluster_of = {digest: f"T{group[0]}" for group in partition(distinct) for digest in group}
    return {name: cluster_of[each.digest] for name, each in signed.items()}


def partition(signatures: Mapping[str, Signature]) -> Iterator[tuple[str, ...]]:
    """Groups of digests whose signatures are one bug."""

    @functools.cache
    def distance(one: str, two: str) -> float:
        return compare(signatures[one], signatures[two]).distance

    yield from average_linkage(signatures, distance, MERGE)


def trace_signature(text: str) -> Signature:
    """The signature of a text. A crash without a native frame is named by its caller."""
    text = as_written(text)
    found = signature_of_text(text)
    if ("outcome", "crash") not in found.components:
        return found
    caller = ("caller", "" if crashed_function(text) else "<".join(_callers(text)))
    return Signature.of(*found.components, caller, ("message", _last_words(text)))


def _last_words(text: str) -> str:
    """A process's last words: a C++ exception, a failed check, the C library's complaint."""
    found = _LAST_WORDS.findall(text)
    return template(found[-1]) if found else ""


def _callers(text: str) -> Iterator[str]:
    """Yield the frames of the user's own code, innermost first; not those of libraries or generated files.

    Lines count: a text that only says which signal it was is no evidence that two calls ran into one bug.
    """
    for path, line, function in _FRAME.findall(text):
        file = path.rsplit("/", 1)[-1]
        if not (_LIBRARY.search(path) or _GENERATED.fullmatch(file)):
            yield f"{file}:{line}:{function}"
