"""Inputs and outputs of a session between closed pages: a further run shows what a kernel does beyond them.

Half of the buffers end where a page begins that nobody may touch, the others begin where one ends; so their
alignment varies as well. Outputs are filled with a byte before the run: it shows what nothing is written to.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from oracles.worker.edges import EDGE, PAGE, WrittenBeyond, placed, room
from oracles.worker.ort.sessions import core

FILLINGS = (EDGE, 0xC2)
ROOMS: list[Any] = []
"""Of one page each, made once: they cost more than a run."""


class NotWritten(Exception):
    """Elements of an output hold what lay there before."""


def must_keep_within(session: Any, inputs: dict[str, Any], found: dict[str, Any]) -> None:
    """Run a session once more, of whose outputs types and shapes were `found`.

    Raises WrittenBeyond or NotWritten; what is touched beyond the pages ends the process.
    """
    taken = (*session.inputs_meta, *session.overridable_initializers)
    types = {each.name: each.type for each in (*taken, *session.outputs_meta)}
    given = {**inputs, **found}
    if not all(_is_plain(value) and types[name].startswith("tensor(") for name, value in given.items()):
        return  # texts, sequences and maps cannot be bound
    unwritten: dict[str, Any] = dict.fromkeys(found, True)
    for byte in FILLINGS:
        try:
            filled = _run(session, inputs, found, byte)
        except RuntimeError:  # it declares other shapes than it gives, and binds none of these
            return
        other = [name for name in unwritten if filled[name].tobytes() != found[name].tobytes()]
        parts = {name: unwritten[name] & _is_filled(filled[name], byte) for name in other}
        unwritten = {name: part for name, part in parts.items() if part.any()}
        if not unwritten:
            return
    raise NotWritten(f"memory: leaves unwritten a part of the output {next(iter(unwritten))}")


def _run(session: Any, inputs: dict[str, Any], found: dict[str, Any], byte: int) -> dict[str, Any]:
    """The outputs, each between pages; raises WrittenBeyond."""
    binding = core.SessionIOBinding(session)
    device = core.OrtDevice(core.OrtDevice.cpu(), core.OrtDevice.default_memory(), 0)
    kept: dict[str, Any] = {}
    results: dict[str, Any] = {}
    for name, value in inputs.items():
        kept[f"input {name}"], place = _placed(value, byte, len(kept))
        binding.bind_input(name, place)
    for name, value in found.items():
        kept[f"output {name}"], results[name] = _placed(value, byte, len(kept))
        results[name].reshape(-1).view(np.uint8)[:] = byte
        binding.bind_output(name, device, value.dtype, value.shape, results[name].ctypes.data)
    session.run_with_iobinding(binding, None)
    for what, around in kept.items():
        if any(each.tobytes().strip(bytes([byte])) for each in around):
            raise WrittenBeyond(f"memory: writes beyond the {what}")
    return results


def _placed(array: Any, byte: int, number: int) -> Any:
    """The bytes around a copy of an array, and the copy; every other one begins where a page does."""
    while number >= len(ROOMS):
        ROOMS.append(room(PAGE))
    inside = ROOMS[number] if array.nbytes <= PAGE else room(array.nbytes)
    return placed(inside, array, byte, at_start=number % 2 == 1, aligned=array.itemsize)


def _is_plain(value: Any) -> bool:
    """Whether a value has memory that can be given, and an element type that numpy has."""
    return isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.size > 0


def _is_filled(array: Any, byte: int) -> Any:
    """Where every byte of an element is this one."""
    parts = np.ascontiguousarray(array).reshape(-1).view(np.uint8).reshape(*array.shape, array.itemsize)
    return (parts == byte).all(axis=-1)
