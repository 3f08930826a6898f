"""What the end of a worker says: a crash, a hang or too much memory, and where.

Wheels are stripped, but the starts of functions are known (`oracles/native/elf.py`); with the few names of
`.dynsym` that gives library and function for any address.
"""

import bisect
import os
import re
import signal
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from oracles.native.elf import Elf, NotElf, demangle
from oracles.normalise import plain_function
from oracles.sandbox import worker
from oracles.sandbox.processes import End, SandboxError, Worker
from oracles.verdict import Config, Frame, Phase, Run, Status

HANDLER = re.compile(r"crash_handler-")
GLUE = re.compile(
    r"""ld-linux.*|libc(-[\d.]+)?\.so.*|libpthread.*|libstdc\+\+.*|libgcc_s.*|libc\+\+.*|\[vdso\]
    | (lib)?python\d.*|_multiarray_umath.*|_ctypes.*|libffi.*""",
    re.VERBOSE,
)
"""Libraries whose frames say how a call or a death is handled, not what was computed."""
GLUE_FUNCTION = re.compile(
    r"""std::.*|c10::(function_ref|impl|Dispatcher|KernelFunction|BoxedKernel)::.*
    | at::(TensorIteratorBase::(serial_)?for_each|parallel_for|internal::.*)""",
    re.VERBOSE,
)
"""Functions that call what they are given, whatever it computes."""

LONGEST = 64


@dataclass(frozen=True)
class Mapping:
    """A line of /proc/self/maps: part of a file in memory."""

    start: int
    end: int
    offset: int
    path: str


@dataclass(frozen=True)
class Evidence:
    """The text and the stack that the crash handler wrote."""

    signal: int
    address: int
    pc: int
    frames: tuple[int, ...]
    mappings: tuple[Mapping, ...]


def parse_evidence(text: str) -> Evidence | None:
    """Read the handler's lines; None when it wrote none. A text that breaks off gives what there is."""
    head, _, maps = text.partition("\nmaps\n")
    numbers: dict[str, list[int]] = {"signal": [], "address": [], "pc": [], "frame": []}
    for word, digits in re.findall(r"^(signal|address|pc|frame) ([0-9a-f]+)$", head, re.MULTILINE):
        numbers[word].append(int(digits, 16))
    if not numbers["pc"]:
        return None
    first = {word: found[0] if found else 0 for word, found in numbers.items()}
    return Evidence(
        first["signal"], first["address"], first["pc"], tuple(numbers["frame"]), tuple(parse_maps(maps))
    )


def parse_maps(text: str) -> Iterator[Mapping]:
    """Yield the mappings of `/proc/PID/maps` that have a file."""
    for line in text.splitlines():
        match = re.match(r"([0-9a-f]+)-([0-9a-f]+) \S+ ([0-9a-f]+) \S+ \d+\s+(\S.*)", line)
        if match:
            start, end, offset = (int(number, 16) for number in match.group(1, 2, 3))
            yield Mapping(start, end, offset, match[4])


def frames_of(evidence: Evidence) -> tuple[Frame, ...]:
    """The frames from the fault outwards without glue (if there are others), recursion shown once."""
    resolved = (resolve(address, evidence.mappings) for address in fault_first(evidence))
    found = [frame for frame in resolved if frame and not HANDLER.match(frame.library)]
    kept = [frame for frame in found if not _is_glue(frame)]
    return tuple(collapse(kept or found))[:LONGEST]


def _is_glue(frame: Frame) -> bool:
    return bool(GLUE.fullmatch(frame.library) or GLUE_FUNCTION.fullmatch(frame.function))


def fault_first(evidence: Evidence) -> list[int]:
    """The fault's own address, then the calls that led there (the byte before each return address)."""
    frames = list(evidence.frames)
    if evidence.pc in frames:
        frames = frames[frames.index(evidence.pc) + 1 :]
    return [evidence.pc, *(address - 1 for address in frames)]


def resolve(address: int, mappings: Sequence[Mapping]) -> Frame | None:
    """The frame of an address; None for one outside of every file (code made at run time)."""
    mapping = next((found for found in mappings if found.start <= address < found.end), None)
    if mapping is None:
        return None
    library = Path(mapping.path).name
    offset = address - mapping.start + mapping.offset
    functions = load_functions(mapping.path)
    if functions is None:
        return Frame(library, offset)
    virtual = functions.virtual(offset)
    return Frame(library, virtual, functions.name(virtual))


def collapse(frames: Sequence[Frame]) -> list[Frame]:
    """Drop a run of frames that repeats the run before it (by function), so that recursion shows once."""
    kept: list[Frame] = []
    for frame in frames:
        kept.append(frame)
        for length in range(1, min(16, len(kept) // 2) + 1):
            if _same(kept[-length:], kept[-2 * length : -length]):
                del kept[-length:]
                break
    return kept


def _same(left: Sequence[Frame], right: Sequence[Frame]) -> bool:
    return [(frame.library, frame.function) for frame in left] == [(f.library, f.function) for f in right]


@dataclass(frozen=True)
class Functions:
    """An ELF file's functions: where each starts, and the names of those that have one."""

    segments: tuple[tuple[int, int, int], ...]
    starts: NDArray[np.int64]
    symbols: tuple[tuple[int, int, str], ...]

    def virtual(self, offset: int) -> int:
        """The address, as the file numbers them, of a position in the file."""
        for position, size, address in self.segments:
            if position <= offset < position + size:
                return offset - position + address
        return offset

    def start(self, address: int) -> int | None:
        """The start of the function that holds an address."""
        index = int(np.searchsorted(self.starts, address, side="right")) - 1
        return int(self.starts[index]) if index >= 0 else None

    def name(self, address: int) -> str:
        """The function's symbol, else `fn_` and the address of its start."""
        index = bisect.bisect_right(self.symbols, (address, 1 << 63, "")) - 1
        if index >= 0:
            value, size, symbol = self.symbols[index]
            if address < value + size:
                return plain_function(demangle(symbol))
        start = self.start(address)
        return "" if start is None else f"fn_{start:x}"


@lru_cache(maxsize=64)
def load_functions(path: str) -> Functions | None:
    """Read an ELF file's tables; None for what is no 64-bit ELF file (or is no more there)."""
    try:
        with Elf(Path(path)) as elf:
            symbols = ((symbol.address, symbol.size, symbol.name) for symbol in elf.symbols())
            segments = tuple((place, size, address) for place, address, size in elf.loaded())
            return Functions(segments, elf.function_starts(), shortest_names(symbols))
    except (OSError, ValueError, struct.error, IndexError, NotElf):
        return None


def shortest_names(symbols: Iterator[tuple[int, int, str]]) -> tuple[tuple[int, int, str], ...]:
    """One name for each address, in order: of aliases (`sinhf`, `sinhf32`) the shortest."""
    best: dict[int, tuple[int, int, str]] = {}
    for symbol in sorted(symbols, key=lambda symbol: (len(symbol[2]), symbol[2])):
        best.setdefault(symbol[0], symbol)
    return tuple(sorted(best.values()))


CPU_SIGNALS = (signal.SIGPROF, signal.SIGXCPU)


@dataclass(frozen=True)
class Remains:
    """The remains of a dead worker: its test, config, phase and program of a batch, the CPU time before, and
    three texts.
    """

    test: int
    config: int
    phase: Phase
    program: int
    cpu_before: float
    stderr: str
    evidence: str
    trace: str


def read_remains(target: Worker) -> Remains:
    """Read the remains of a dead worker from its memory files."""
    test, config, phase, program, used = worker.MARKER.unpack(
        os.pread(target.evidence, worker.MARKER.size, 0)
    )
    return Remains(
        test=test,
        config=config,
        phase=Phase(worker.PHASES[min(phase, len(worker.PHASES) - 1)]),
        program=program,
        cpu_before=used,
        stderr=read_text(target.stderr),
        evidence=read_text(target.evidence, worker.MARKER_SIZE),
        trace=read_text(target.trace),
    )


def read_text(descriptor: int, offset: int = 0) -> str:
    """Read what was written to a file from an offset on, as far as it is kept."""
    return os.pread(descriptor, worker.LOG_LIMIT, offset).decode("utf-8", "replace")


def run_of_death(config: Config, end: End, remains: Remains, *, waited: bool, garbled: str = "") -> Run:
    """The run that ended in a death; raises `SandboxError` where it was the worker itself that failed.

    `waited`: the wall limit was reached. `garbled`: why the worker's last message could not be read, if it
    was killed for that.
    """
    number = os.WTERMSIG(end.status) if os.WIFSIGNALED(end.status) else 0
    code = os.WEXITSTATUS(end.status) if os.WIFEXITED(end.status) else 0
    if code == worker.OWN_FAILURE and worker.OWN_WORDS in remains.trace:
        raise SandboxError(remains.trace.strip())
    status = status_of(number, remains.stderr, waited=waited, garbled=bool(garbled))
    if code == worker.STARVED:
        status = Status.OUT_OF_MEMORY
    evidence = parse_evidence(remains.evidence)
    frames = frames_of(evidence) if evidence else ()
    message = joined(headline(end, number, garbled), remains.stderr)
    return Run(
        config=config,
        status=status,
        phase=remains.phase,
        message=message,
        trace=joined(
            message,
            *(f"at {each.library}+0x{each.offset:x} {each.function}" for each in frames),
            remains.trace,
        ),
        signal=0 if garbled or status is Status.TIMEOUT else number,
        frames=frames,
        program=remains.program,
        cpu_seconds=max(0.0, end.cpu_seconds - remains.cpu_before),
    )


def status_of(number: int, stderr: str, *, waited: bool, garbled: bool) -> Status:
    """A SIGKILL that we did not send is the kernel's, for memory; an uncaught `std::bad_alloc` is memory."""
    if waited or number in CPU_SIGNALS:
        return Status.TIMEOUT
    if garbled:
        return Status.CRASH
    if number == signal.SIGKILL or (number == signal.SIGABRT and worker.OUT_OF_MEMORY.search(stderr)):
        return Status.OUT_OF_MEMORY
    return Status.CRASH


def headline(end: End, number: int, garbled: str) -> str:
    """The first line of a death that no signal explains."""
    if garbled:
        return f"the process wrote what is no reply: {garbled}"
    return "" if number else f"the process exited with code {os.WEXITSTATUS(end.status)}"


def joined(*parts: str) -> str:
    """The parts that are not blank, a line each."""
    return "\n".join(part.strip() for part in parts if part.strip())
