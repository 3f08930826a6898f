"""The process that runs programs: one file that needs only the standard library, numpy and the framework.

Started as `python -I worker.py --backend FILE …` under any interpreter from Python 3.8 on, it becomes a
*zygote*: single-threaded, the framework imported and warmed up. For every worker asked for it forks, and the
child serves requests on a socket of its own. Messages are a JSON header and raw array bytes, never pickle.

Descriptors 2, `EVIDENCE` and `TRACE` of a worker are files in memory that its parent keeps open: they survive
the worker's death. The first page of `EVIDENCE` holds the progress marker (config, phase, CPU time used
before), the rest what the crash handler writes.
"""

from __future__ import annotations

import argparse
import array
import contextlib
import ctypes
import faulthandler
import gc
import importlib.util
import json
import mmap
import os
import resource
import signal
import socket
import struct
import sys
import time
import traceback
from typing import Any, Sequence  # noqa: UP035 (Python 3.8)

if __name__ == "__main__":
    for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "TVM_NUM_THREADS", "ORT_DISABLE_TELEMETRY"):
        os.environ[_name] = "1"
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

import numpy as np

HEAD = struct.Struct("<4sIQ")
MAGIC = b"CRX1"
MARKER = struct.Struct("<IId")
PHASES = ("import", "optimise", "codegen", "execute")
EVIDENCE = 200
TRACE = 201
LOG_LIMIT = 8 << 20
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

PR_SET_PDEATHSIG = 1


class Garbled(Exception):
    """A message that is not of the protocol."""


# Messages


def send(channel: socket.socket, header: dict[str, Any], buffers: Sequence[Any] = ()) -> None:
    """Send one message: lengths, header, then the buffers, each padded to 16 bytes."""
    text = json.dumps(header, separators=(",", ":")).encode()
    parts = []
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
    if magic != MAGIC or length > 1 << 28 or size > limit:
        raise Garbled("not a message of the worker protocol")
    try:
        header = json.loads(bytes(_exactly(channel, length)))
    except ValueError as error:
        raise Garbled(str(error)) from error
    if not isinstance(header, dict):
        raise Garbled("the header is not an object")
    return header, memoryview(_exactly(channel, size))


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

    A value is None, a list, an array, or (type name, array of bits) for the types that numpy lacks.
    """
    if value is None:
        return None
    if isinstance(value, list):
        return {"sequence": [encode(item, buffers) for item in value]}
    if isinstance(value, dict):
        return {"map": [encode(list(value), buffers), encode(list(value.values()), buffers)]}
    name, data = value if isinstance(value, tuple) else ("", np.asarray(value))
    shape = list(data.shape)
    if data.dtype.kind in "OUS":
        text = json.dumps([str(item) for item in data.ravel().tolist()]).encode()
        buffers.append(text)
        return ["str", shape, len(text)]
    if not data.flags.c_contiguous:
        data = np.ascontiguousarray(data)
    buffers.append(data.reshape(-1).view(np.uint8) if data.size else b"")
    return [name or data.dtype.name, shape, data.nbytes]


class Decoder:
    """Reads values in order from a message's body, without copying."""

    def __init__(self, body: memoryview) -> None:
        self.body = body
        self.offset = 0

    def take(self, size: int) -> memoryview:
        if size < 0 or self.offset + size > len(self.body):
            raise Garbled("a value lies outside of its message")
        start, self.offset = self.offset, self.offset + size + (-size % 16)
        return self.body[start : start + size]

    def value(self, spec: Any) -> Any:
        if spec is None:
            return None
        if isinstance(spec, dict):
            return self._compound(spec)
        name, shape, size = spec
        data = self.take(size)
        if name == "str":
            items = np.empty(shape, dtype=object)
            items.reshape(-1)[:] = json.loads(bytes(data))
            return items
        found = np.frombuffer(data, dtype=BITS.get(name, name)).reshape(shape)
        return (name, found) if name in BITS else found

    def _compound(self, spec: dict[str, Any]) -> Any:
        if "map" in spec:
            keys, values = (self.value(part) for part in spec["map"])
            return dict(zip(keys, values))  # noqa: B905 (Python 3.8)
        return [self.value(item) for item in spec["sequence"]]


def send_descriptors(channel: socket.socket, text: bytes, descriptors: Sequence[int]) -> None:
    """Hand open descriptors over with one short datum (`socket.send_fds` is of Python 3.9)."""
    rights = array.array("i", descriptors)
    channel.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def receive_descriptors(channel: socket.socket, count: int) -> tuple[bytes, list[int]]:
    rights = array.array("i")
    text, ancillary, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(count * rights.itemsize))
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            rights.frombytes(data[: len(data) - len(data) % rights.itemsize])
    return text, list(rights)


# A worker


class Marker:
    """Where this process has come to, in memory that its parent sees too."""

    def __init__(self) -> None:
        self.page = mmap.mmap(EVIDENCE, mmap.PAGESIZE)
        self.config = 0
        self.phase = 0
        self.started = 0.0

    def begin(self, config: int) -> None:
        self.config = config
        self.started = time.process_time()
        self.enter("import")

    def enter(self, phase: str) -> None:
        self.phase = PHASES.index(phase)
        MARKER.pack_into(self.page, 0, self.config, self.phase, self.started)


def serve(channel: socket.socket, backend: Any, cpu_seconds: float) -> None:
    """Answer requests until the other side goes away."""
    marker = Marker()
    while True:
        try:
            request, body = receive(channel)
        except (EOFError, OSError):
            return
        if request["op"] == "run":
            run_configs(channel, backend, request, body, marker, cpu_seconds)
        else:
            buffers: list[Any] = []
            answer = getattr(backend, request["op"])(*request.get("arguments", ()))
            send(channel, {"answer": answer}, buffers)


def run_configs(
    channel: socket.socket,
    backend: Any,
    request: dict[str, Any],
    body: memoryview,
    marker: Marker,
    cpu: float,
) -> None:
    """Run the program under every config, one reply each, so that a death loses only its own."""
    decoder = Decoder(body)
    program = request.get("path") or bytes(decoder.take(request["size"]))
    inputs = {name: decoder.value(spec) for name, spec in request["inputs"]}
    first: dict[str, Any] | None = None
    for index, settings in request["configs"]:
        truncate(2)
        marker.begin(index)
        signal.setitimer(signal.ITIMER_PROF, cpu)
        header, outputs = attempt(backend, program, inputs, settings, request, marker)
        signal.setitimer(signal.ITIMER_PROF, 0)
        header.update(config=index, phase=PHASES[marker.phase], cpu=time.process_time() - marker.started)
        buffers: list[Any] = []
        header["outputs"] = [[name, describe(name, value, first, buffers)] for name, value in outputs.items()]
        if request.get("log"):
            header["log"] = contents(2)
        send(channel, header, buffers)
        if first is None and header["status"] == "ok":
            first = outputs


def attempt(
    backend: Any,
    program: Any,
    inputs: dict[str, Any],
    settings: dict[str, Any],
    request: dict[str, Any],
    marker: Marker,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """One run; whatever the framework raises is data.

    The inputs are copied, so that a kernel that writes to its input cannot spoil the next config.
    """
    try:
        feeds = {name: copied(value) for name, value in inputs.items()}
        outputs = backend.run(program, feeds, settings, request["outputs"], marker.enter)
    except MemoryError as error:
        return failure("out-of-memory", error), {}
    except BaseException as error:
        return failure("exception", error), {}
    return {"status": "ok"}, outputs


def failure(status: str, error: BaseException) -> dict[str, Any]:
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return {"status": status, "error": type(error).__name__, "message": str(error), "trace": trace}


def copied(value: Any) -> Any:
    if isinstance(value, list):
        return [copied(item) for item in value]
    if isinstance(value, tuple):
        return (value[0], value[1].copy())
    return None if value is None else value.copy()


def describe(name: str, value: Any, first: dict[str, Any] | None, buffers: list[Any]) -> Any:
    """A value's description, or "=" when the first config's output has the same type, shape and bits."""
    if first is not None and name in first and same_bits(value, first[name]):
        return "="
    return encode(value, buffers)


def same_bits(left: Any, right: Any) -> bool:
    if isinstance(left, tuple) and isinstance(right, tuple):
        return left[0] == right[0] and same_bits(left[1], right[1])
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same_bits(*pair) for pair in zip(left, right))  # noqa: B905
    if not (isinstance(left, np.ndarray) and isinstance(right, np.ndarray)):
        return left is None and right is None
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    if left.dtype.kind in "OUS":
        return bool((left == right).all())
    return left.tobytes() == right.tobytes()


def truncate(descriptor: int) -> None:
    """Empty the file of what was written so far; its descriptor appends."""
    sys.stderr.flush()
    if os.fstat(descriptor).st_size:
        os.ftruncate(descriptor, 0)


def contents(descriptor: int) -> str:
    sys.stderr.flush()
    return os.pread(descriptor, LOG_LIMIT, 0).decode("utf-8", "replace")


# The zygote


def become_worker(backend: Any, descriptors: Sequence[int], options: argparse.Namespace) -> None:
    """The forked child: its own descriptors, its limits, death with its parent, then requests."""
    zygote = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != zygote:
        os._exit(0)
    channel = socket.socket(fileno=descriptors[0])
    for source, place in (
        (descriptors[1], 2),
        (descriptors[1], 1),
        (descriptors[2], EVIDENCE),
        (descriptors[3], TRACE),
    ):
        os.dup2(source, place)
    for descriptor in descriptors[1:]:
        os.close(descriptor)
    memory = options.memory + data_size()
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (options.memory, options.memory))
    serve(channel, backend, options.cpu)


def data_size() -> int:
    """Bytes of private writable memory, which is what RLIMIT_DATA counts."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[5]) * mmap.PAGESIZE


def rule(control: socket.socket, backend: Any, options: argparse.Namespace) -> None:
    """Fork and reap workers on request until crux goes away."""
    while True:
        text, descriptors = receive_descriptors(control, 4)
        if not text:
            return
        if text == b"F":
            fork_worker(control, backend, descriptors, options)
        else:
            request, _ = receive(control)
            send(control, reap(request) if text == b"R" else {"cpu": cpu_used()})


def fork_worker(
    control: socket.socket, backend: Any, descriptors: Sequence[int], options: argparse.Namespace
) -> None:
    pid = os.fork()
    if not pid:
        status = 70
        try:
            control.close()
            become_worker(backend, descriptors, options)
            status = 0
        finally:
            os._exit(status)
    for descriptor in descriptors:
        os.close(descriptor)
    send(control, {"pid": pid})


def reap(request: dict[str, Any]) -> dict[str, Any]:
    """Wait for a worker to end, with the signals asked for (name, seconds to wait after it), and say how."""
    pid = request["pid"]
    for number, seconds in request["steps"]:
        if number:
            os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            done, status, usage = os.wait4(pid, os.WNOHANG)
            if done:
                return {
                    "status": status,
                    "cpu": usage.ru_utime + usage.ru_stime,
                    "rss": usage.ru_maxrss << 10,
                }
            time.sleep(0.0005)
    os.kill(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    return {
        "status": status,
        "cpu": usage.ru_utime + usage.ru_stime,
        "rss": usage.ru_maxrss << 10,
        "killed": True,
    }


def cpu_used() -> float:
    """CPU seconds of this process and of the workers that it has reaped."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def load_backend(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("crux_backend", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["crux_backend"] = module
    spec.loader.exec_module(module)
    return module


def prepare(options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """Import the framework and warm it up; the process must still have one thread."""
    backend = load_backend(options.backend)
    version = backend.load()
    for place in (EVIDENCE, TRACE):
        os.dup2(2, place)
    faulthandler.enable(file=TRACE, all_threads=False)
    faulthandler.register(signal.SIGPROF, file=TRACE, all_threads=False, chain=True)
    threads = os.listdir("/proc/self/task")
    if len(threads) != 1:
        raise RuntimeError("the framework has started threads: %d" % len(threads))
    gc.collect()
    gc.freeze()
    return backend, {"version": version, "python": sys.version.split()[0], "numpy": np.__version__}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", required=True)
    parser.add_argument("--control", type=int, required=True)
    parser.add_argument("--memory", type=int, required=True)
    parser.add_argument("--cpu", type=float, required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    control = socket.socket(fileno=options.control)
    backend, hello = prepare(options)
    with contextlib.suppress(OSError, EOFError):
        send(control, hello)
        rule(control, backend, options)
    os._exit(0)


if __name__ == "__main__":
    main()
