"""The one place that starts processes.

A folder that somebody unpacked may hold a `pip.py` or a `torch/`, so nothing that crux starts for itself
looks for code in the working directory: interpreters start isolated, in an empty folder of ours, with an
environment from a list, no descriptors but those named, no core dumps and a process group of their own. Only
what the user names on the command line (`--check`, `--also`, `crux wrap`) runs in the user's own environment
and folder.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import resource
import shutil
import signal
import site
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

Process = subprocess.Popen[bytes]
NOTHING, TOGETHER = subprocess.DEVNULL, subprocess.STDOUT

KEPT = ("LANG", "LANGUAGE", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "PATH", "TERM", "CC", "CXX")
KEPT_KINDS = re.compile(
    r"(LC|OMP|GOMP|KMP|MKL|OPENBLAS|BLIS|NUMEXPR|MALLOC|GLIBC|CUDA|CUDNN|CUBLAS|NVIDIA|NCCL|HIP|HSA|ROCM|ATEN"
    r"|TORCH|TORCHINDUCTOR|TORCHDYNAMO|PYTORCH|TRITON|INDUCTOR|ORT|ONNX|ONNXRUNTIME|TVM|DMLC|DNNL|ONEDNN|XLA|LLVM)_[A-Z0-9_]+"
)
SECRET = re.compile(r"TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE|APIKEY|(^|_)(KEY|AUTH|PAT)(_|$)")
"""What a name holds whose value is nobody else's business, whatever kind it is of."""
PLACES = re.compile(r"HOME|TMPDIR|XDG_[A-Z_]+|USER|LOGNAME|PYENV_[A-Z]+")
"""What tools of the user's own machine need to know, and contained workers do not."""
INSTALLING = re.compile(
    r"PIP_[A-Z_]+|(https?|all|no)_proxy|(HTTPS?|ALL|NO)_PROXY|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|NETRC"
)
"""What pip reads to reach a package index, credentials included."""

_BEGIN = """
import site, sys
sys.path.append(sys.argv[2])
site.main()
sys.path += sys.argv[3:]
from corpus.processes import answer
answer(int(sys.argv[1]))
"""
"""After the standard library comes the folder of our packages, then the site's, then the other folders of
installed packages that this process knows: nothing of the working directory, nothing before ours."""


class NotRun(Exception):
    """A process could not be started, or did not end in time: the reason, in one line."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a process: its exit code (below 0: the signal), and what it printed."""

    code: int
    output: str
    errors: str


def is_allowed(name: str) -> bool:
    """Whether a variable is a setting of frameworks, no secret, and no cache that lies outside."""
    is_setting = name in KEPT or KEPT_KINDS.fullmatch(name) is not None
    return is_setting and SECRET.search(name) is None and not name.endswith("_CACHE_DIR")


def environment(also: re.Pattern[str] | None = None) -> dict[str, str]:
    """The variables for a process of ours: settings of frameworks, the user's places, what `also` matches."""
    kinds = [PLACES, also] if also else [PLACES]
    return {
        name: value
        for name, value in os.environ.items()
        if is_allowed(name) or any(kind.fullmatch(name) for kind in kinds)
    }


def python(path: str | Path | None = None) -> list[str]:
    """The words that start an interpreter, crux's own by default, so that it imports nothing of its folder.

    Where crux itself is installed in the user's own site-packages, its interpreter must keep looking there.
    """
    if path in (None, sys.executable) and __file__.startswith(site.getusersitepackages()):
        return [sys.executable, "-E", "-P"]
    return [str(path or sys.executable), "-I"]


def start(
    command: Sequence[str],
    *,
    stdin: int | IO[bytes] = NOTHING,
    stdout: int | IO[bytes] = NOTHING,
    stderr: int | IO[bytes] = NOTHING,
    inherited: Sequence[int] = (),
    folder: str | Path | None = None,
    variables: Mapping[str, str] | None = None,
    confine: Callable[[], None] | None = None,
) -> Process:
    """Start a process of ours and leave it running; raises `NotRun`.

    It leads a session of its own, so whoever starts it also ends it (`end_group`). `folder` is an empty one
    and `variables` are `environment()` unless given; `confine` runs in the child before the program.
    """
    try:
        process = subprocess.Popen(
            [os.path.abspath(command[0]) if os.sep in command[0] else command[0], *command[1:]],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            pass_fds=tuple(inherited),
            cwd=empty_folder() if folder is None else folder,
            env=environment() if variables is None else variables,
            start_new_session=True,
            preexec_fn=confine,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:  # the last is of `confine`
        raise NotRun(_reason(command, error)) from None
    with suppress(ProcessLookupError):
        resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 0))
    return process


def run(
    command: Sequence[str],
    seconds: float,
    *,
    variables: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Ended:
    """Run a process of ours to its end; raises `NotRun` where it cannot start or takes longer."""
    process = start(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, variables=variables, folder=folder
    )
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise NotRun(f"{command[0]}: did not end within {seconds:g} s") from None
    finally:
        end_group(process)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    return Ended(process.returncode, output.decode(errors="replace"), errors.decode(errors="replace"))


COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O2", "-fPIC", "-shared")
BUILD_SECONDS = 60.0


def cache_folder() -> Path:
    """`tensorcrux` in the user's cache directory (XDG_CACHE_HOME)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "tensorcrux"


def compiled(source: Path) -> tuple[Path | None, str]:
    """The library built of a C source, or None and why there is none; kept by the hash of its source."""
    key = hashlib.sha256(source.read_bytes() + platform.machine().encode()).hexdigest()[:16]
    library = cache_folder() / f"{source.stem}-{key}.so"
    if library.exists():
        return library, ""
    compiler = next((found for name in COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        return None, "no C compiler"
    try:
        # Compile to a name of our own and rename, so that builds side by side do no harm
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            product = Path(folder) / library.name
            command = [compiler, *FLAGS, "-o", str(product), str(source)]
            done = run(command, BUILD_SECONDS)
            if done.code:
                raise NotRun(" ".join(done.errors.split()) or f"{compiler} ended with {done.code}")
            product.rename(library)
    except (OSError, NotRun) as error:
        return None, f"{source.name} cannot be built: {error}"
    return library, ""


def start_for_user(command: Sequence[str], stdin: int) -> Process:
    """Start what the user named, silently: in the user's environment and folder, in a group of its own."""
    return subprocess.Popen(command, stdin=stdin, stdout=NOTHING, stderr=NOTHING, start_new_session=True)


def run_for_user(command: Sequence[str], more: Mapping[str, str]) -> int:
    """Run the user's own program to its end as the user would, with `more` variables; raises `NotRun`."""
    try:
        return subprocess.run(command, env={**os.environ, **more}, check=False).returncode
    except (OSError, ValueError) as error:
        raise NotRun(_reason(command, error)) from None


def wait(process: Process, seconds: float) -> int | None:
    """The exit code, or None where the process does not end in time."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        return None


def end_group(process: Process) -> None:
    """Kill whatever is left of the process and its group, and collect its end."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def call_apart(function: Callable[..., None], *given: Any) -> Iterator[Connection]:
    """Call `function(connection, *given)` in another process of crux while the block runs; the near end.

    The function must end once its connection is closed. It runs in the same folder and environment as this
    process, but finds code only where the interpreter and crux are installed.
    """
    import pickle
    from multiprocessing.connection import Connection

    ours, theirs = socket.socketpair()
    near = Connection(ours.detach())
    with theirs:
        command = [sys.executable, "-I", "-S", "-c", _BEGIN, str(theirs.fileno()), *_installed()]
        process = start(
            command, inherited=[theirs.fileno()], folder=os.getcwd(), variables=os.environ, stderr=_stderr()
        )
    try:
        near.send_bytes(pickle.dumps((function, given)))
        yield near
    finally:
        near.close()
        process.wait()


def answer(descriptor: int) -> None:
    """Be the other process of `call_apart`."""
    import pickle
    from multiprocessing.connection import Connection

    # the parent is interrupted as well, and closes the connection
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Connection(descriptor) as connection, suppress(EOFError, BrokenPipeError, ConnectionResetError):
        function, given = pickle.loads(connection.recv_bytes())
        function(connection, *given)


def _installed() -> list[str]:
    """The folder that holds our packages, then those of `sys.path` in which distributions are installed."""
    home = str(Path(__file__).resolve().parents[1])
    return [home, *(entry for entry in sys.path if entry and next(Path(entry).glob("*.dist-info"), None))]


def _stderr() -> int:
    """Where another process of crux's own complains: where this one does, if it has such a place."""
    try:
        os.fstat(2)
    except OSError:
        return NOTHING
    return 2


@cache
def empty_folder() -> str:
    """A folder of ours with nothing in it, for processes to start in; the root where there can be none."""
    with suppress(OSError, RuntimeError):
        folder = cache_folder() / "empty"
        folder.mkdir(mode=0o500, parents=True, exist_ok=True)
        status = folder.lstat()
        is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
        if is_ours and not os.listdir(folder):
            return str(folder)
    return "/"


def _reason(command: Sequence[str], error: Exception) -> str:
    """Say in one line why a program did not start."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return f"{command[0]}: cannot be started ({' '.join(reason.split())})"
