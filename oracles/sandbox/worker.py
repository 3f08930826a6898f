"""The process that runs programs: one file that needs only the standard library, numpy and the framework.

Started as `python -I worker.py --backend FILE …` under any interpreter from Python 3.8 on, it becomes a
*zygote*: single-threaded, the framework imported and warmed up. For every worker asked for it forks, and the
child serves requests on a socket of its own. Messages are a JSON header and raw array bytes, never pickle.

Descriptor 2 and two more of a worker, its evidence and its trace, are files in memory that crux keeps open:
they survive the worker's death. The first page of the evidence holds the progress marker (test, config,
phase, program of a batch counted from 1, CPU time used before), the rest what the crash handler writes.

It is started contained, by the launcher in `container`. What it adds itself keeps workers and zygote from
each other: no worker may signal another process or see another one's memory.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import ctypes
import errno
import faulthandler
import fcntl
import functools
import gc
import importlib.util
import json
import mmap
import operator
import os
import re
import resource
import select
import shutil
import signal
import socket
import struct
import sys
import time
import traceback
import types
from typing import Any, Collection, Sequence  # noqa: UP035 (Python 3.8)

if __name__ == "__main__":
    for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "TVM_NUM_THREADS", "ORT_DISABLE_TELEMETRY"):
        os.environ[_name] = "1"
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

import numpy as np

WRITE = json.JSONEncoder(separators=(",", ":")).encode
HEAD = struct.Struct("<4sIQ")
MAGIC = b"CRX1"
MOST_HEADER = 1 << 26
MARKER = struct.Struct("<IIIId")
MARKER_SIZE = mmap.PAGESIZE
PHASES = ("import", "optimise", "codegen", "execute")
EXECUTED = "executed"
"""One run of a program that runs many times has ended."""
OWN_FAILURE, STARVED = 70, 71
"""The exit codes of a worker that failed outside of the framework, and of one that had no memory there."""
OWN_WORDS = "crux failed in the worker, not the framework:\n"
LOG_LIMIT = 8 << 20
OUT_OF_MEMORY = re.compile(
    r"std::bad_alloc|MemoryError|(failed to|cannot|can't) allocate memory|CUDA(_ERROR_| )out.of.memory",
    re.IGNORECASE,
)
DEVICE_ERRORS = (
    ("CudaIllegalAddress", r"illegal memory access|CUDA_ERROR_ILLEGAL_ADDRESS"),
    ("CudaLaunchFailure", r"unspecified launch failure|CUDA_ERROR_LAUNCH_FAILED"),
    ("CudaAssert", r"device-side assert|CUDA_ERROR_ASSERT"),
    ("CudaMisalignedAddress", r"CUDA.*misaligned address|CUDA_ERROR_MISALIGNED_ADDRESS"),
    ("CudaIllegalInstruction", r"CUDA.*illegal instruction|CUDA_ERROR_ILLEGAL_INSTRUCTION"),
    ("CudaLaunchTimeout", r"the launch timed out|CUDA_ERROR_LAUNCH_TIMEOUT"),
    ("CudaHardware", r"CUDA.*(hardware stack error|ECC error)|CUDA_ERROR_(HARDWARE_STACK|ECC)"),
)
"""Errors after which no call on the device succeeds any more in this process, by what crux calls them."""
BITS = {
    "bfloat16": "uint16",
    "float8_e4m3fn": "uint8",
    "float8_e4m3fnuz": "uint8",
    "float8_e5m2": "uint8",
    "float8_e5m2fnuz": "uint8",
    "float8_e8m0fnu": "uint8",
    "float6_e2m3fn": "uint8",
    "float6_e3m2fn": "uint8",
    "float4_e2m1fn": "uint8",
    "int4": "uint8",
    "uint4": "uint8",
    "int2": "uint8",
    "uint2": "uint8",
}
"""The types that numpy lacks, by their names in ml_dtypes, and what one element is kept in."""


class DeviceLost(Exception):
    """The device answers this process no more: it ends, and costs nothing but itself."""


class Garbled(Exception):
    """A message that is not of the protocol."""


# Messages


def send(channel: socket.socket, header: dict[str, Any], buffers: Sequence[Any] = ()) -> None:
    """Send one message: lengths, header, then the buffers, all padded to 16 bytes."""
    text = WRITE(header).encode()
    text += b" " * (-len(text) % 16)
    parts: list[Any] = []
    for buffer in buffers:
        data = memoryview(buffer)
        parts += [data, b"\0" * (-data.nbytes % 16)]
    size = sum(memoryview(part).nbytes for part in parts)
    head = HEAD.pack(MAGIC, len(text), size) + text
    if size < 1 << 16:
        channel.sendall(b"".join([head, *parts]))
        return
    channel.sendall(head)
    for part in parts:
        channel.sendall(part)


def receive(channel: socket.socket, limit: int = 1 << 62) -> tuple[dict[str, Any], memoryview]:
    """Read one message; raises `EOFError` at the end and `Garbled` when it is not one."""
    magic, length, size = HEAD.unpack(_exactly(channel, HEAD.size))
    if magic != MAGIC or length > MOST_HEADER or size > limit:
        raise Garbled("not a message of the worker protocol")
    rest = memoryview(_exactly(channel, length + size))
    try:
        header = json.loads(str(rest[:length], "utf-8"))
    except (ValueError, RecursionError) as error:
        raise Garbled(str(error)) from error
    if not isinstance(header, dict):
        raise Garbled("the header is not an object")
    return header, rest[length:]


def _exactly(channel: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    done = 0
    while done < size:
        count = channel.recv_into(view[done:])
        if not count:
            raise EOFError("the other side has gone")
        done += count
    return data


def encode(value: Any, buffers: list[Any]) -> Any:
    """Describe a value for a header and add its bytes to `buffers`.

    A value is None, a list, an array, or (type name, array of bits) for the types that numpy lacks; a map
    becomes the list of its keys and its values.
    """
    if value is None:
        return None
    if isinstance(value, list):
        return {"sequence": [encode(item, buffers) for item in value]}
    if isinstance(value, dict):
        return encode([np.asarray(list(value)), np.asarray(list(value.values()))], buffers)
    name, data = value if isinstance(value, tuple) else ("", np.asarray(value))
    name = name or name_of(data.dtype)
    if name in BITS:
        data = data.view(BITS[name])
    shape = list(data.shape)
    if data.dtype.kind in "OUS":
        text = json.dumps([str(item) for item in data.ravel().tolist()]).encode()
        buffers.append(text)
        return ["str", shape, len(text)]
    if not data.flags.c_contiguous:
        data = np.ascontiguousarray(data)
    buffers.append(data.reshape(-1).view(np.uint8) if data.size else b"")
    return [name, shape, data.nbytes]


name_of = functools.lru_cache(maxsize=None)(operator.attrgetter("name"))  # numpy puts it together anew


class Decoder:
    """Reads values in order from a message's body, without copying."""

    def __init__(self, body: memoryview) -> None:
        self.body = body
        self.offset = 0

    def take(self, size: int) -> memoryview:
        """Take bytes of the message; values lie on borders of 16. Raises Garbled beyond its end."""
        if size < 0 or self.offset + size > len(self.body):
            raise Garbled("a value lies outside of its message")
        start, self.offset = self.offset, self.offset + size + (-size % 16)
        return self.body[start : start + size]

    def value(self, spec: Any) -> Any:
        """Decode a value: a tensor, texts, a sequence or nothing. Raises Garbled if it does not fit."""
        if spec is None:
            return None
        if isinstance(spec, dict):
            return [self.value(item) for item in spec["sequence"]]
        name, shape, size = spec
        data = self.take(size)
        if name == "str":
            texts = json.loads(bytes(data))
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise Garbled("a value of texts holds others")
            return np.array([*texts, None], dtype=object)[:-1].reshape(shape)
        found = np.frombuffer(data, dtype=BITS.get(name, name)).reshape(shape)
        return (name, found) if name in BITS else found


def send_descriptors(channel: socket.socket, text: bytes, descriptors: Sequence[int]) -> None:
    """Hand open descriptors over with one short datum (`socket.send_fds` is of Python 3.9)."""
    rights = array.array("i", descriptors)
    channel.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def receive_descriptors(channel: socket.socket, count: int) -> tuple[bytes, list[int]]:
    """Receive a byte and the open descriptors that come with it."""
    rights = array.array("i")
    text, ancillary, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(count * rights.itemsize))
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            rights.frombytes(data[: len(data) - len(data) % rights.itemsize])
    return text, list(rights)


# What workers may do to each other

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
OWN_ONLY = {
    "x86_64": (62, 234, 129, 297, 302, 203, 144, 142, 314, 141),
    "aarch64": (129, 131, 138, 240, 261, 122, 119, 118, 274, 140),
}
"""kill, tgkill, two ways to queue a signal, prlimit64, sched_set…, setpriority: allowed on the caller
itself.
"""
NOBODYS = {"x86_64": (200, 424), "aarch64": (130, 424)}
"""tkill and pidfd_send_signal, which name no process that a filter could compare."""
FILE_BYTES = 1 << 30
"""The most that a worker may write to one file, its output and its evidence among them."""

libc: Any = ctypes.CDLL(None, use_errno=True)


class Rules(ctypes.Structure):
    """`struct sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def keep_to_itself() -> None:
    """Let this process signal and limit nobody but itself, whatever it becomes; where the kernel has
    filters.
    """
    machine = os.uname().machine
    if machine not in OWN_ONLY:
        return
    denied = (0x06, 0, 0, 0x00050000 | errno.EPERM)
    lines = [(0x20, 0, 0, 0)]
    for number in NOBODYS[machine]:
        lines += [(0x15, 0, 1, number), denied]
    kill, own = OWN_ONLY[machine][0], os.getpid()
    for number in OWN_ONLY[machine]:
        # 0 is the caller itself, but for `kill`, where it is the caller's group
        also = own if number == kill else 0
        lines += [(0x15, 0, 5, number), (0x20, 0, 0, 16), (0x15, 2, 0, own), (0x15, 1, 0, also), denied]
        lines += [(0x20, 0, 0, 0)]
    lines.append((0x06, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *line) for line in lines))
    rules = Rules(len(lines), ctypes.addressof(code))
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(PR_SET_SECCOMP, 2, ctypes.byref(rules), 0, 0)


def end_orphans(living: Collection[int]) -> None:
    """Kill what workers started and left behind: it has become a child of the first process of the
    namespace.
    """
    for pid in processes():
        if pid not in (1, os.getpid(), *living) and stat_of(pid)[1:2] == ["1"]:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def processes() -> list[int]:
    """Every process that can be seen."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def stat_of(pid: int) -> list[str]:
    """The fields of a process after its name, state and parent first; none where it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()
    except OSError:
        return []


def cpu_ticks(pid: int) -> int:
    """CPU time of a process, its children and theirs; 0 where it is gone."""
    fields = stat_of(pid)
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            children = file.read().split()
    except OSError:
        children = []
    return sum(map(int, fields[11:15])) + sum(cpu_ticks(int(child)) for child in children)


def memory_of(pid: int) -> int:
    """Bytes of memory that a process has for itself or shares with its children."""
    try:
        with open(f"/proc/{pid}/status") as file:
            rows = [line.split() for line in file if line.startswith(("RssAnon:", "RssShmem:"))]
    except OSError:
        return 0
    return 1024 * sum(int(row[1]) for row in rows)


# A worker


class Loaded(BaseException):
    """A program that was only to be loaded has been; no framework's own handler may take it for a failure."""


class Marker:
    """The progress of this process, in memory that its parent sees too."""

    def __init__(self, evidence: int) -> None:
        self.page = mmap.mmap(evidence, MARKER_SIZE)
        self.test = 0
        self.config = 0
        self.phase = 0
        self.started = (0.0, 0.0)
        self.entered = 0.0
        self.least = float("inf")

    def begin(self, config: int) -> None:
        """Mark the start of a configuration: its import comes first."""
        self.config = config
        self.started = (time.process_time(), time.thread_time())
        self.phase, self.least = 0, float("inf")
        self.enter("import")

    def enter(self, phase: str, program: int = 0) -> None:
        """Mark the start of a phase in the page that the parent reads; `executed` is that of the next run.

        Of a batch `program` is the one that it is for, counted from 1; 0 for all of them.
        """
        if phase == EXECUTED:
            self.executed()
            phase = "execute"
        self.phase = PHASES.index(phase)
        self.entered = time.thread_time()
        MARKER.pack_into(self.page, 0, self.test, self.config, self.phase, program, self.started[0])

    def executed(self) -> float:
        """The CPU seconds of the shortest execution so far, where one has begun that ends now."""
        if PHASES[self.phase] == "execute":
            self.least = min(self.least, time.thread_time() - self.entered)
        return self.least

    def enter_unless_executed(self, phase: str) -> None:
        """Mark the start of a phase; end the run where it would execute the program."""
        if phase == "execute":
            raise Loaded
        self.enter(phase)

    def cpu_seconds(self) -> float:
        """Since `begin`; while a timer runs the process clock moves in ticks, the thread's does not."""
        return max(time.process_time() - self.started[0], time.thread_time() - self.started[1])


def serve(channel: socket.socket, backend: Any, options: argparse.Namespace) -> None:
    """Answer requests until the other side goes away."""
    marker = Marker(options.evidence)
    job: dict[str, Any] = {}
    with contextlib.suppress(EOFError, ConnectionError, DeviceLost):
        while True:
            request, body = receive(channel)
            if request["op"] == "run":
                options.breakpoints.begin()
                marker.test = request["test"]
                marker.begin(request["configs"][0][0])
                job = job_of(request, Decoder(body), job)
                run_configs(channel, backend, request, job, marker, options)
                job = job if request["keep"] else {}
            else:
                send(channel, {"answer": getattr(backend, request["op"])(*request["arguments"])})


def run_configs(
    channel: socket.socket,
    backend: Any,
    request: dict[str, Any],
    job: dict[str, Any],
    marker: Marker,
    options: argparse.Namespace,
) -> None:
    """Run the program under every config, one reply each, so that a death loses only its own.

    If the code is watched, outputs are freed before the last reply: what runs after it is told by chance.
    """
    first, left = None, request["cpu"]
    os.chdir(request.get("folder") or options.work)
    for index, settings in request["configs"]:
        truncate(2)
        marker.begin(index)
        signal.setitimer(signal.ITIMER_PROF, max(0.01, min(request["most"], left)))
        header, outputs = attempt(backend, job, settings, marker)
        took = marker.executed()
        signal.setitimer(signal.ITIMER_PROF, 0)
        buffers: list[Any] = []
        header["outputs"] = [[name, describe(name, value, first, buffers)] for name, value in outputs.items()]
        if options.breakpoints.is_armed and index == request["configs"][-1][0]:
            buffers, outputs, first = [bytes(each) for each in buffers], {}, None
        header.update(
            {name: request[name] for name in ("test", "ticket")},
            config=index,
            phase=PHASES[marker.phase],
            cpu=marker.cpu_seconds(),
            execute=took if header["status"] == "ok" and took < float("inf") else 0.0,
            total=time.process_time(),
            **({"log": contents(2)} if request["log"] else {}),
        )
        left -= header["cpu"]
        send(channel, header, buffers)
        if header.get("lost"):
            raise DeviceLost
        if first is None and header["status"] == "ok":
            first = outputs


def job_of(request: dict[str, Any], decoder: Decoder, last: dict[str, Any]) -> dict[str, Any]:
    """The request with its program and its inputs, which may be those of the last one."""
    if request["again"]:
        return dict(request, program=last["program"], inputs=last["inputs"])
    job = dict(request, program=request.get("path") or bytes(decoder.take(request["size"])))
    return {**job, "inputs": {name: decoder.value(spec) for name, spec in request["inputs"]}}


def attempt(
    backend: Any, job: dict[str, Any], settings: dict[str, Any], marker: Marker
) -> tuple[dict[str, Any], dict[str, Any]]:
    """One run; whatever the framework raises is data.

    The inputs are copied, so that a kernel that writes to its input cannot spoil the next config. Programs of
    a language for which the backend has a `run_LANGUAGE` of its own go there, all others to `run`.
    """
    try:
        feeds = {name: copied(value) for name, value in job["inputs"].items()}
        run = getattr(backend, f"run_{settings.get('format', '')}", backend.run)
        enter = marker.enter_unless_executed if settings.get("loads_only") else marker.enter
        enter = poisoning(enter, job)
        outputs = run(job["program"], feeds, settings, job["outputs"], enter)
    except Loaded:
        return {"status": "ok"}, {}
    except BaseException as error:
        return failure(error, backend), {}
    finally:
        if job["poison"]:
            poison(0)
    refused = [[number, failure(error, backend)] for number, error in settings.pop("refused", ())]
    return {"status": "ok", "refused": refused}, outputs


def poisoning(enter: Any, job: dict[str, Any]) -> Any:
    """Let the memory that a program takes be guarded and filled, from the phase on that the job says."""
    if not job["poison"]:
        return enter
    first = PHASES.index(job["poisoned_from"])

    def enter_poisoned(phase: str) -> None:
        enter(phase)
        poison(job["poison"] if PHASES.index(phase) >= first else 0)

    return enter_poisoned


M_PERTURB = -6


def poison(byte: int) -> None:
    """Fill fresh memory with a byte, 0 to leave it: by the guarded allocator, or else by the C library's."""
    if hasattr(libc, "crux_guard"):
        libc.crux_guard(byte)
    else:
        libc.mallopt(M_PERTURB, byte)


def failure(error: BaseException, backend: Any) -> dict[str, Any]:
    """Describe an exception; a backend's `about` adds what the text leaves out, and where it stopped."""
    about = getattr(backend, "about", None)
    trace, at, dims = about(error) if about else ("", "", {})
    trace += "".join(traceback.format_exception(type(error), error, error.__traceback__))
    is_memory = isinstance(error, MemoryError) or OUT_OF_MEMORY.search(str(error))
    status = "out-of-memory" if is_memory else "exception"
    lost = device_error(str(error))
    name = lost or type(error).__name__
    told = {"message": str(error), "trace": trace, "at": at, "dims": dims, "lost": bool(lost)}
    return {"status": status, "error": name, **told}


def device_error(text: str) -> str:
    """Name the error of a device that is of no use to this process any more; empty for any other."""
    return next((name for name, pattern in DEVICE_ERRORS if re.search(pattern, text)), "")


def copied(value: Any) -> Any:
    """Copy a value deeply."""
    if isinstance(value, list):
        return [copied(item) for item in value]
    if isinstance(value, tuple):
        return (value[0], value[1].copy())
    return None if value is None else value.copy()


def describe(name: str, value: Any, first: dict[str, Any] | None, buffers: list[Any]) -> Any:
    """A value's description, or "=" when the first good config's output has the same type, shape and bits."""
    if first is not None and name in first and same_bits(value, first[name]):
        return "="
    return encode(value, buffers)


def same_bits(left: Any, right: Any) -> bool:
    """Say whether two values are equal bit by bit, dtypes and shapes too."""
    if type(left) is not type(right):
        return False
    if isinstance(left, (tuple, list)):
        return len(left) == len(right) and all(map(same_bits, left, right))
    if not isinstance(left, np.ndarray):
        return bool(left == right)
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.kind in "OUS":
        return bool(left.tolist() == right.tolist())
    return bool(left.tobytes() == right.tobytes())


def truncate(descriptor: int) -> None:
    """Empty a file of what was written so far; its descriptor appends."""
    if os.fstat(descriptor).st_size:
        os.ftruncate(descriptor, 0)


def contents(descriptor: int) -> str:
    """Read what went to stderr so far, at most LOG_LIMIT bytes."""
    sys.stderr.flush()
    return os.pread(descriptor, LOG_LIMIT, 0).decode("utf-8", "replace")


# The zygote


def become_worker(backend: Any, descriptors: Sequence[int], options: argparse.Namespace) -> None:
    """The forked child: its own descriptors, its limits, death with its parent, then requests."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != options.zygote:
        return
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
    channel = socket.socket(fileno=descriptors[0])
    for place, source in ((1, 1), (2, 1), (options.evidence, 2), (options.trace, 3)):
        os.dup2(descriptors[source], place)
    for descriptor in descriptors[1:]:
        os.close(descriptor)
    bound(resource.RLIMIT_DATA, options.data)
    bound(resource.RLIMIT_FSIZE, min(options.memory, FILE_BYTES))
    keep_to_itself()
    serve(channel, backend, options)


def bound(which: int, most: int) -> None:
    """Lower a limit of this process; one that is lower already stays, nobody could raise it."""
    hard = resource.getrlimit(which)[1]
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (most, most))


def data_size() -> int:
    """Bytes of private writable memory, which is what RLIMIT_DATA counts."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[5]) * mmap.PAGESIZE


def rule(control: socket.socket, backend: Any, options: argparse.Namespace) -> None:
    """Fork and reap workers on request until crux goes away; none is left then."""
    living: set[int] = set()
    try:
        while True:
            watch_memory(control, living, options)
            text, descriptors = receive_descriptors(control, 4)
            if text == b"F":
                pid = fork_worker(control, backend, descriptors, options)
                living.add(pid)
                send(control, {"pid": pid})
            elif text == b"R":
                request, _ = receive(control)
                answer = reap(request["pid"], request["steps"])
                living.discard(request["pid"])
                clean_up(living, options)
                send(control, answer)
            elif text == b"C":
                send(control, {"cpu": cpu_used()})
            elif text == b"T":
                request, _ = receive(control)
                send(control, {"ticks": cpu_ticks(request["pid"])})
            else:
                return
    finally:
        for pid in living:
            reap(pid, ())


def watch_memory(control: socket.socket, living: Collection[int], options: argparse.Namespace) -> None:
    """Wait for a request; meanwhile end workers that take far more memory in all than each alone may.

    No limit of the kernel's counts what several processes take, nor memory that they share.
    """
    poll = select.poll()
    poll.register(control, select.POLLIN)
    while not poll.poll(MEMORY_SECONDS * 1000 if living else None):
        most = options.data * (len(living) + 1)
        others = [pid for pid in processes() if pid not in (1, os.getpid())] if options.alone else living
        if sum(map(memory_of, others)) > most:
            for pid in others:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)


MEMORY_SECONDS = 0.5
KEPT = "kept"
"""What the zygote itself leaves in the folder, for all workers."""


def clean_up(living: Collection[int], options: argparse.Namespace) -> None:
    """End what a dead worker has left running; once none is left, remove what they wrote."""
    if options.alone:
        end_orphans(living)
    if not living:
        for name in os.listdir(options.work):
            path = os.path.join(options.work, name)
            if name == KEPT:
                continue
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    os.remove(path)


def fork_worker(
    control: socket.socket, backend: Any, descriptors: Sequence[int], options: argparse.Namespace
) -> int:
    """Fork a worker off the zygote. Returns its pid in the zygote, and never in the worker."""
    options.breakpoints.settle()
    pid = os.fork()
    if not pid:
        status = OWN_FAILURE
        try:
            control.close()
            become_worker(backend, descriptors, options)
            status = 0
        except MemoryError:
            status = STARVED
        except BaseException:
            os.write(options.trace, (OWN_WORDS + traceback.format_exc()).encode("utf-8", "replace"))
        finally:
            os._exit(status)
    for descriptor in descriptors:
        os.close(descriptor)
    return pid


def reap(pid: int, steps: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Wait for a worker to end, by steps of (signal to send or 0, seconds to wait then); at last kill it."""
    for number, seconds in [*steps, (signal.SIGKILL, 1e9)]:
        if number:
            os.kill(pid, int(number))
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            done, status, usage = os.wait4(pid, os.WNOHANG)
            if done:
                return {"status": status, "last": number, "cpu": usage.ru_utime + usage.ru_stime}
            signal.sigtimedwait([signal.SIGCHLD], max(0.0, min(deadline - time.monotonic(), 60.0)))
    raise AssertionError("a killed process does not end")


def cpu_used() -> float:
    """CPU seconds of this process and of the workers that it has reaped."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def load_backend(path: str) -> Any:
    """Import a backend's module from its file."""
    spec = importlib.util.spec_from_file_location("crux_backend", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    share(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    module = importlib.util.module_from_spec(spec)
    sys.modules["crux_backend"] = module
    spec.loader.exec_module(module)
    return module


def share(folder: str) -> None:
    """Let a backend import `oracles.worker`, whatever else lies where crux is installed."""
    package = types.ModuleType("oracles")
    package.__path__ = [folder]
    sys.modules.setdefault("oracles", package)


def prepare(options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """Import the framework and warm it up; the process must still have one thread."""
    facts: dict[str, Any] = {"python": sys.version.split()[0], "numpy": np.__version__}
    backend = load_backend(options.backend)
    facts["version"] = backend.load()
    facts["crash_handler"] = watch_signals(options)
    options.breakpoints = arm_breakpoints(options.breakpoints, backend)
    facts["breakpoints"] = options.breakpoints.complaint
    facts["cpu"] = time.process_time()
    must_be_forkable()
    options.data = options.memory + data_size()
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # nobody of the same user reads or writes its memory from here on
    gc.collect()
    gc.freeze()
    gc.enable()
    return backend, facts


def arm_breakpoints(option: str, backend: Any) -> Any:
    """Breakpoints in the framework's code, where they are asked for; what the warm-up enters is left out."""
    from oracles.worker.breakpoints import Breakpoints

    breakpoints = Breakpoints(option)
    if breakpoints.arm():
        backend.load()
        breakpoints.leave_out()
    return breakpoints


def must_be_forkable() -> None:
    """Neither threads nor an open GPU survive a fork; raises `RuntimeError`."""
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise RuntimeError(f"the framework has started threads: {threads} of them")
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink("/proc/self/fd/" + descriptor).startswith("/dev/nvidia"):
                raise RuntimeError("the framework has opened the GPU")


def watch_signals(options: argparse.Namespace) -> str:
    """Python's own fault handler, and before it the C one where there is one; "" or why there is none.

    Their descriptors are put in place now; each worker puts files of its own there.
    """
    options.evidence, options.trace = (fcntl.fcntl(2, fcntl.F_DUPFD, LOWEST) for _ in range(2))
    faulthandler.enable(file=options.trace, all_threads=False)
    faulthandler.register(signal.SIGPROF, file=options.trace, all_threads=False, chain=True)
    if not options.handler:
        return "not built"
    try:
        ctypes.CDLL(options.handler).crux_watch(options.evidence)
    except OSError as error:
        return str(error)
    return ""


LOWEST = 20
"""The least number of a descriptor that nothing else takes by chance, however few there may be."""


def main() -> None:
    """Start the zygote: import the framework once, fork workers on demand."""
    gc.disable()
    parser = argparse.ArgumentParser()
    for name in ("backend", "work", "handler"):
        parser.add_argument("--" + name, required=True)
    for name in ("control", "memory"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--cpu", type=float, required=True)
    parser.add_argument("--breakpoints", default="")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    options.zygote = os.getpid()
    options.alone = os.environ.pop("CRUX_ALONE", "") == "1"  # in a namespace that holds nobody else
    try:
        control = socket.socket(fileno=options.control)
        backend, facts = prepare(options)
        with contextlib.suppress(OSError, EOFError):
            send(control, facts)
            rule(control, backend, options)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
