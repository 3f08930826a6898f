"""What stripped functions are: their names and files, from exports, RTTI and the texts that they mention.

A C++ library built with checks names itself: a failing check mentions `__PRETTY_FUNCTION__` and `__FILE__`,
so the function that holds the check loads both addresses. A class with virtual functions has a table of them,
and beside it the class's name for `typeid`.
"""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise

import numpy as np

from oracles.native.elf import Addresses, Elf


@cache
def _runtime() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libstdc++.so.6")
    except OSError:
        return None


@lru_cache(maxsize=4096)
def demangle(symbol: str) -> str:
    """A C++ symbol as its source has it where the C++ runtime is there, else as it is."""
    runtime = _runtime()
    if runtime is None or not symbol.startswith("_Z"):
        return symbol
    status = ctypes.c_int()
    runtime.__cxa_demangle.restype = ctypes.c_void_p
    text = runtime.__cxa_demangle(symbol.encode(), None, None, ctypes.byref(status))
    if not text:
        return symbol
    plain = ctypes.string_at(text).decode("ascii", "replace")
    ctypes.CDLL(None).free(ctypes.c_void_p(text))
    return plain


_SOURCE = re.compile(rb"[\w./+-]+\.(?:cc|cpp|cxx|c|cu|h|hpp|inc)$")
_PRETTY = re.compile(rb"[^\n]*\w[\w:<>~, *&]*\(.*\)(?: const)?(?: \[with .*\])?$")
_ROOTS = re.compile(r"^.*?/(?=(?:onnxruntime|onnx|src|include|aten|c10|torch|3rdparty|_deps)/)")
"""What precedes the path within the project, of the machine that built it."""
_STANDARD = "include/c++/"
_LONGEST = 2048
_TYPE_INFO = re.compile(rb"\*?(?:N|St|\d)[\w]*$")


@dataclass(frozen=True)
class Named:
    """A function's name, file and class; unknown ones are empty. `by` says where the name comes from."""

    name: str = ""
    by: str = ""
    file: str = ""


def name_functions(elf: Elf, starts: Addresses, ends: Addresses) -> list[Named]:
    """Name each function: by its symbol if there is one, then by its own texts, then by its class."""
    exported = {symbol.address: symbol.name for symbol in elf.symbols()}
    pretty, files = mentioned(elf, starts, ends)
    classes = virtual_functions(elf, starts)
    known = files_between(starts, files)
    found = []
    for index, start in enumerate(starts.tolist()):
        file = known[index]
        if start in exported:
            found.append(Named(qualified(demangle(exported[start])), "export", file))
        elif (told := qualified(pretty.get(index, ""))) and "::" in told and not told.startswith("std::"):
            found.append(Named(told, "text", file))
        elif start in classes:
            found.append(Named(classes[start], "class", file))
        else:
            found.append(Named(file=file))
    return found


def mentioned(elf: Elf, starts: Addresses, ends: Addresses) -> tuple[Mapping[int, str], Mapping[int, str]]:
    """Map each function's number to the signature, and to the file, that it mentions most."""
    signatures: dict[int, Counter[str]] = {}
    files: dict[int, Counter[str]] = {}
    texts: dict[int, tuple[str, str]] = {}
    for number, target in _references(elf, starts, ends):
        if target not in texts:
            texts[target] = _told(elf, target)
        signature, file = texts[target]
        if signature:
            signatures.setdefault(number, Counter())[signature] += 1
        if file:
            files.setdefault(number, Counter())[file] += 1
    return {key: _most(found) for key, found in signatures.items()}, {
        key: _most(found) for key, found in files.items()
    }


def _most(found: Counter[str]) -> str:
    """The commonest; a source before a header, whose functions are inlined."""
    return max(found, key=lambda text: (not text.endswith((".h", ".hpp", ".inc")), found[text], text))


def _told(elf: Elf, address: int) -> tuple[str, str]:
    """The signature or the file that stands at an address; both empty where neither does."""
    text = elf.text_at(address, _LONGEST)
    if len(text) < 4 or not text.isascii():
        return "", ""
    if b"/" in text and _SOURCE.fullmatch(text):
        file = text.decode()
        return "", "" if _STANDARD in file else _ROOTS.sub("", file)
    return (text.decode(), "") if b"::" in text and _PRETTY.fullmatch(text) else ("", "")


def _references(elf: Elf, starts: Addresses, ends: Addresses) -> Iterator[tuple[int, int]]:
    """The function's number and the address, for every `lea register, [rip + address]` into constant data."""
    constants = [section for section in elf.sections if section.flags == 0x32 or section.flags == 0x2]
    for section in elf.code():
        code = np.frombuffer(elf.data, np.uint8, section.size, section.offset)
        if len(code) < 7 or not len(starts):
            continue
        is_lea = (code[1:-5] == 0x8D) & ((code[:-6] & 0xFB) == 0x48) & ((code[2:-4] & 0xC7) == 0x05)
        places = np.flatnonzero(is_lea)
        words = code[places[:, None] + np.arange(3, 7)].view("<i4")[:, 0].astype(np.int64)
        del code, is_lea
        at = places + section.address
        targets = at + 7 + words
        is_text = np.zeros(len(at), bool)
        for each in constants:
            is_text |= (targets >= each.address) & (targets < each.address + each.size)
        at, targets = at[is_text], targets[is_text]
        numbers = np.searchsorted(starts, at, side="right") - 1
        inside = (numbers >= 0) & (at < ends[numbers])
        yield from zip(numbers[inside].tolist(), targets[inside].tolist(), strict=True)


def files_between(starts: Addresses, files: Mapping[int, str]) -> list[str]:
    """Each function's file: its own, or that of its neighbours where they agree: linkers keep files whole."""
    found = [""] * len(starts)
    known = sorted(number for number in files if not files[number].endswith((".h", ".hpp", ".inc")))
    for left, right in pairwise(known):
        if files[left] == files[right]:
            found[left:right] = [files[left]] * (right - left)
    for number, file in files.items():
        found[number] = found[number] or file
    return found


def virtual_functions(elf: Elf, starts: Addresses) -> Mapping[int, str]:
    """`Class::virtual N` by the function's start, for the functions that only one class has."""
    places, values = elf.pointers()
    at = dict(zip(places.tolist(), values.tolist(), strict=True))
    is_start = set(starts.tolist())
    infos = dict(_type_infos(elf, places, values))
    owners: dict[int, set[str]] = {}
    for place in places[np.isin(values, np.array(sorted(infos), np.int64))].tolist():
        name, slot = infos[at[place]], 0
        while at.get(place + 8 * (slot + 1)) in is_start:
            owners.setdefault(at[place + 8 * (slot + 1)], set()).add(f"{name}::virtual {slot}")
            slot += 1
    return {start: next(iter(names)) for start, names in owners.items() if len(names) == 1}


def _type_infos(elf: Elf, places: Addresses, values: Addresses) -> Iterator[tuple[int, str]]:
    """Yield the address of each `std::type_info` and its class: the second word points to the name."""
    for place, value in zip(places.tolist(), values.tolist(), strict=True):
        text = elf.text_at(value, 512)
        if 2 < len(text) < 512 and _TYPE_INFO.fullmatch(text):
            name = demangle("_Z" + text.decode().lstrip("*"))
            if not name.startswith("_Z"):
                yield place - 8, plain(name)


def qualified(signature: str) -> str:
    """`a::B::c` of a signature as a compiler prints it, without what it returns, takes and is made with."""
    text = plain(signature.partition(" [with ")[0])
    head = text.partition("(")[0].strip()
    return head.rpartition(" ")[2].lstrip("*&") or text


def plain(name: str) -> str:
    """A name without its template arguments, and with anonymous namespaces and lambdas as words."""
    text = name.replace("(anonymous namespace)", "anonymous").replace("{anonymous}", "anonymous")
    text = re.sub(r"operator(<=>|<<=?|>>=?|<=?|>=?|->\*?|\(\))", "operator", text)
    kept, depth = [], 0
    for letter in text:
        depth += letter == "<"
        if not depth:
            kept.append(letter)
        depth -= letter == ">" and depth > 0
    return "".join(kept)
