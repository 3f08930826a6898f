"""Reading files that anybody may have written: regular ones, within bounds, parsed into what is expected.

Every complaint has one form: the file, what is wrong with it, and what to do.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import stat
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from corpus.errors import UserError

MOST_DOCUMENT = 64 << 20
MOST_TEXT = 1 << 20
MOST_ITEMS = 1_000_000
MOST_NUMBER = 1 << 63
ANOTHER = "name another file"
ADDRESS_SECONDS = 30.0


def read_bytes(path: Path, most: int, advice: str = ANOTHER, *, by_link: bool = True) -> bytes:
    """The bytes of a regular file of at most so many; raises `UserError`.

    Where it must be a file of ours, no link leads to it (`by_link`).
    """
    try:
        # looked at first: opening a device or a pipe may do something by itself
        if not stat.S_ISREG(os.stat(path, follow_symlinks=by_link).st_mode):
            raise UserError(f"{path}: not a regular file; {advice}")
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | (0 if by_link else os.O_NOFOLLOW))
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise UserError(f"{path}: not a regular file; {advice}")
            data = file.read(most + 1) if status.st_size <= most else b""
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error}); {advice}") from error
    except ValueError:  # a null byte in its name
        raise UserError(f"{str(path)!r}: no name of a file; {advice}") from None
    if status.st_size > most or len(data) > most:
        raise UserError(f"{path}: {max(status.st_size, len(data))} bytes, over {most}; {advice}")
    return data


def read_text(path: Path, most: int = MOST_DOCUMENT, advice: str = ANOTHER) -> str:
    """The text of a file in UTF-8; raises `UserError`."""
    try:
        return read_bytes(path, most, advice).decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not text in UTF-8 (byte {error.start}); {advice}") from error


def read_json(path: Path, most: int = MOST_DOCUMENT, advice: str = ANOTHER) -> Any:
    """The document in a file; raises `UserError`."""
    return parse_json(read_text(path, most, advice), str(path), advice)


def read_address(address: str, most: int) -> str:
    """The text at an address of the web, of at most so many bytes; raises `UserError`."""
    from http.client import HTTPException
    from urllib.request import urlopen

    try:
        with urlopen(address, timeout=ADDRESS_SECONDS) as answer:
            data = answer.read(most + 1)
        if len(data) > most:
            raise UserError(f"{address}: more than {most:,} bytes")
        return str(data, "utf-8")
    except (OSError, ValueError, HTTPException) as error:
        raise UserError(f"{address}: cannot be read ({_line(error)})") from None


def parse_json(text: str | bytes, where: str, advice: str = ANOTHER) -> Any:
    """The document that a text spells; raises `UserError` where it is none, or nested too deep."""
    try:
        return load_json(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: no JSON ({_line(error)}); {advice}") from None


def load_json(text: str | bytes) -> Any:
    """The document that a text spells; ValueError where it is none, RecursionError where it is too deep."""
    document = json.loads(text, parse_constant=_no_number)
    if isinstance(text, bytes):
        text = text.decode()
    if "\\u" in text or "\\U" in text:  # half of a character can be spelled, and printed nowhere
        json.dumps(document, ensure_ascii=False).encode()
    return document


def is_deeper(document: Any, most: int) -> bool:
    """Whether lists and objects stand within one another more than so many times."""
    level = [document]
    for _ in range(most):
        level = [
            part
            for item in level
            for part in (item.values() if isinstance(item, dict) else item)
            if isinstance(part, (dict, list))
        ]
        if not level:
            return False
    return True


def _no_number(word: str) -> float:
    return {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}[word]


def read_toml(path: Path, most: int = MOST_DOCUMENT, advice: str = ANOTHER) -> dict[str, Any]:
    """The tables of a TOML file; raises `UserError`."""
    return parse_toml(read_text(path, most, advice), str(path), advice)


def parse_toml(text: str, where: str, advice: str = ANOTHER) -> dict[str, Any]:
    """The tables that a text spells; raises `UserError` where it is no TOML."""
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: no TOML ({_line(error)}); {advice}") from None


def unpack(content: bytes, most: int, where: str) -> bytes:
    """What was compressed into these bytes, if it is at most so large; raises `UserError`."""
    try:
        stream = zlib.decompressobj()
        data = stream.decompress(content, most + 1)
    except (zlib.error, TypeError) as error:
        raise UserError(f"{where}: damaged ({_line(error)}); take it from a copy") from None
    if len(data) > most or not stream.eof:
        raise UserError(f"{where}: damaged, or over {most} bytes; take it from a copy")
    return data


# What a document is expected to hold


@dataclass(frozen=True, slots=True)
class Text:
    """A text of at most so many characters that matches in whole; printable unless a pattern is given."""

    pattern: str = ""
    most: int = MOST_TEXT


@dataclass(frozen=True, slots=True)
class Fields:
    """An object with these members, those of `needed` in any case; others are dropped."""

    needed: Mapping[str, Shape] = field(default_factory=dict)
    others: Mapping[str, Shape] = field(default_factory=dict)


Shape: TypeAlias = "type | Text | Fields | list[Any] | tuple[Any, ...] | dict[str, Any]"
"""A type; a text; an object's members; `[S]` any number of S; `(S, T)` one of them; `{"": S}` any names.

Numbers are finite and fit 64 bits. `type(None)` is null.
"""


def members(names: str, shape: Any) -> dict[str, Any]:
    """Members of these names, separated by spaces, which all have one shape."""
    return dict.fromkeys(names.split(), shape)


def held_to(document: Any, shape: Any, where: str, advice: str = ANOTHER) -> Any:
    """The part of a document that has the shape; raises `UserError` where a member has another."""
    try:
        return _held(document, shape, "")
    except _Misfit as error:
        raise UserError(f"{where}: {error}; {advice}") from None


class _Misfit(Exception):
    """Where in a document something else stands than what is expected."""


def _held(value: Any, shape: Any, place: str) -> Any:
    if isinstance(shape, tuple):
        return _one_of(value, shape, place)
    if isinstance(shape, Fields):
        return _fields(value, shape, place)
    if isinstance(shape, (list, dict)):
        return _many(value, shape, place)
    if not _is_plain(value, shape):
        raise _Misfit(f"{place.lstrip('.') or 'it'} is not as crux writes it")
    return value


def _one_of(value: Any, shapes: tuple[Any, ...], place: str) -> Any:
    for shape in shapes[:-1]:
        try:
            return _held(value, shape, place)
        except _Misfit:
            continue
    return _held(value, shapes[-1], place)


def _fields(value: Any, shape: Fields, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _Misfit(f"{place.lstrip('.') or 'it'} is no object")
    if lacking := sorted(shape.needed.keys() - value.keys()):
        raise _Misfit(f"{place.lstrip('.') or 'it'} says nothing of {lacking[0]}")
    known = {**shape.others, **shape.needed}
    return {name: _held(value[name], known[name], f"{place}.{name}") for name in known if name in value}


def _many(value: Any, shape: Any, place: str) -> Any:
    if not isinstance(value, type(shape)) or len(value) > MOST_ITEMS:
        raise _Misfit(f"{place.lstrip('.') or 'it'} is not as crux writes it")
    if isinstance(value, list):
        return [_held(one, shape[0], f"{place}[{at}]") for at, one in enumerate(value)]
    for name in value:
        _held(name, str, f"{place}: a name")
    return {name: _held(one, shape[""], f"{place}.{name:.40}") for name, one in value.items()}


def _is_plain(value: Any, shape: Any) -> bool:
    if isinstance(shape, Text):
        return isinstance(value, str) and len(value) <= shape.most and _is_text(value, shape.pattern)
    if shape is float:
        shape = (int, float)
    if not isinstance(value, shape) or (isinstance(value, bool) and shape is not bool):
        return False
    if isinstance(value, str):
        return (len(value) <= MOST_TEXT and value.isascii()) or _is_encoded(value)
    return not isinstance(value, (int, float)) or -MOST_NUMBER <= value < MOST_NUMBER


def _is_text(value: str, pattern: str) -> bool:
    return re.fullmatch(pattern, value) is not None if pattern else value.isprintable()


def _is_encoded(value: str) -> bool:
    try:
        return len(value.encode()) <= 4 * MOST_TEXT
    except UnicodeEncodeError:
        return False


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:120] or type(error).__name__


SCRATCH = ".crux-new-"
"""What files and folders of ours begin with until they are whole; a kill may leave one behind."""


def write_fresh(path: Path, content: str | bytes) -> None:
    """Put a file in place, whole or not at all; whatever stood there goes, and no link is followed."""
    data = content.encode() if isinstance(content, str) else content
    fresh = path.with_name(f"{SCRATCH}{secrets.token_hex(8)}")
    try:
        with fresh.open("xb") as file:
            file.write(data)
        os.replace(fresh, path)
    except FileNotFoundError as error:
        raise UserError(f"{path.parent}: is gone while crux writes there; run it again") from error
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def must_stay_within(folder: Path, path: Path) -> None:
    """Raises `UserError` where a folder on the way from `folder` to a file in it is a link."""
    for each in path.relative_to(folder).parents:
        if each != Path(".") and (folder / each).is_symlink():
            raise UserError(f"{folder / each}: is a link, so nothing is written there; remove it")


RESERVED = frozenset({"case.json", "inputs.npz", "model.onnx"})
"""What a case folder keeps under these names is never a file of weights."""

WEIGHTS = "weights"
"""The folder in which a case's weights lie once crux has written it, each file named by its content.

Under the names that a model brings along, one of them could be `numpy.py` beside a script that imports it.
"""

_FRESH_NS = 2_000_000_000
"""A file changed so lately may change again within one tick of its time stamp."""


@dataclass(frozen=True)
class ExternalFile:
    """A file of weights beside the model: never read into memory, linked or copied where it is needed.

    `location` is the path by which the model refers to it, relative to the model's folder.
    """

    location: str
    path: Path
    size: int

    @property
    def digest(self) -> str:
        """sha256 of the content, read in pieces; remembered as long as the file is not touched."""
        status = self.path.stat()
        if time.time_ns() - status.st_mtime_ns < _FRESH_NS:
            return _digest(str(self.path))
        return _known_digest(str(self.path), status.st_size, status.st_mtime_ns, status.st_ino)


@lru_cache(maxsize=256)
def _known_digest(path: str, size: int, modified_ns: int, inode: int) -> str:
    """The digest of a file that has been at rest; the status in the key tells when it changes."""
    return _digest(path)


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_external(location: str, folder: Path, where: str) -> ExternalFile:
    """The file that a model in `folder` calls `location`; UserError when absent or outside the folder."""
    pure = PurePosixPath(location)
    refused = f"{where}: external data {location[:200]!r}"
    if not location or "\0" in location or pure.is_absolute() or ".." in pure.parts or "\\" in location:
        raise UserError(f"{refused} leaves the model's folder; keep weights beside the model")
    if str(pure) in RESERVED:
        raise UserError(f"{refused} is the case's own file; keep weights in a file of their own")
    path = folder / pure
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise UserError(f"{refused} cannot be found; put it beside the model") from error
    if not real.is_relative_to(folder.resolve()):
        raise UserError(f"{refused} leaves the model's folder by a link; keep weights beside the model")
    if not real.is_file():
        raise UserError(f"{refused} is not a regular file; keep weights in one")
    return ExternalFile(str(pure), real, real.stat().st_size)
