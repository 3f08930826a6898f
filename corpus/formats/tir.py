"""Modules of TVM's PrimFuncs: their loops as data.

TVMScript and TVM's JSON are opened as `relax`, in a worker, and are this format if they hold PrimFuncs alone.
"""

import json
from functools import partial
from typing import Any

from corpus.format import Format, read_document
from corpus.tir.program import (
    calls_outside,
    canonical,
    check,
    input_types,
    make_inputs,
    measure,
    parse,
    to_bytes,
)
from corpus.tir.script import print_text


def from_worker(answer: dict[str, Any], where: str) -> bytes:
    """The bytes of a module that TVM's worker has read."""
    return to_bytes(parse(json.dumps(answer["document"]).encode(), where))


FORMAT = Format(
    name="tir",
    program_file="program.tir.json",
    suffixes=(".tir.json",),
    target="tvm",
    unit="statements",
    read_program=partial(read_document, "tir"),
    parse=parse,
    check=check,
    input_types=input_types,
    make_inputs=lambda module, seed, dims: make_inputs(module, seed),
    canonical=canonical,
    measure=measure,
    print_text=print_text,
    calls_outside=calls_outside,
    from_worker=from_worker,
)
