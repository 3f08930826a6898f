"""Where basic blocks start: functions by their unwind entries, blocks within them by linear decoding.

A start is always the first byte of an instruction that the decoder reached from the function's own start, so
a breakpoint there is met whole or not at all. What a table of jumps leads to is found as what follows a jump
that does not fall through.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from corpus.errors import UserError
from oracles.extras import how_to_install
from oracles.native.elf import Addresses, Elf

BREAKPOINT = 0xCC


def block_starts(elf: Elf, starts: Addresses, ends: Addresses) -> Addresses:
    """Return the starts of all blocks of these functions, in order; every function's own start is one.

    Raises `UserError` where the decoder is not installed.
    """
    if find_spec("iced_x86") is None:
        raise UserError(f"--native-coverage: iced-x86 is not installed; {how_to_install('iced-x86')}")
    decoder = import_module("iced_x86")
    found: list[int] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        code = elf.bytes_at(start, end - start)
        if code and code[0] != BREAKPOINT:
            found += _starts_of(decoder, code, start)
    return np.unique(np.array(found, dtype=np.int64))


def _starts_of(iced: Any, code: bytes, start: int) -> set[int]:
    """Return the blocks of one function: its start, where its jumps lead to, and what follows a jump."""
    flow, names = iced.FlowControl, iced.Mnemonic
    falls_through = (flow.NEXT, flow.CALL, flow.INDIRECT_CALL)
    jumps = (flow.CONDITIONAL_BRANCH, flow.UNCONDITIONAL_BRANCH)
    filler = (names.NOP, names.INT3, names.UD2)
    instruction, decoder = iced.Instruction(), iced.Decoder(64, code, ip=start)
    known: set[int] = set()
    found, targets, is_after_jump = {start}, set(), False
    while decoder.can_decode:
        known.add(decoder.ip)
        decoder.decode_out(instruction)
        kind = instruction.flow_control
        if is_after_jump and instruction.mnemonic not in filler:
            found.add(instruction.ip)
            is_after_jump = False
        if kind not in falls_through:
            if instruction.is_invalid:
                return {start}  # data among the code: nothing else here is trusted
            if kind in jumps:
                targets.add(instruction.near_branch_target)
            is_after_jump = kind != flow.EXCEPTION or is_after_jump
    return found | (targets & known)
