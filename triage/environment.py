"""The environment that a failure was seen in, asked of the interpreter that runs the target."""

import json
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from corpus import processes
from corpus.errors import UserError
from corpus.target import Target
from oracles.extras import installed_release
from triage.projects import projects

QUESTION = """
import json, platform, sys
try:
    from importlib.metadata import version, PackageNotFoundError
except ImportError:
    version = None
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = version(name)
    except Exception:
        pass
libc = " ".join(platform.libc_ver()).strip()
print(json.dumps({"python": platform.python_version(), "packages": found, "libc": libc}))
"""
ASK_SECONDS = 60.0
TELLING_FLAGS = re.compile(r"\b(avx\w*|amx\w*|fma|f16c|sse4_2|asimd\w*|sve\w*|bf16|i8mm)\b")


def describe_environment(target: Target) -> dict[str, Any]:
    """Versions, system and processor as plain data; the same on every call, and nobody's name in it."""
    asked = _ask(target.get("python") or sys.executable)
    return {
        "target": str(target.with_setting("python", "…")) if target.get("python") else str(target),
        "device": target.device,
        "packages": asked["packages"],
        "python": asked["python"],
        "libc": asked["libc"],
        "system": _system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "crux": installed_release("tensorcrux") or "not installed",
    }


def package_line(environment: Mapping[str, Any], package: str) -> str:
    """`onnxruntime 1.31.1`, or the name alone when its version is not known."""
    packages = environment["packages"]
    names = [name for name in packages if name == package or name.startswith(f"{package}-")]
    return f"{names[0]} {packages[names[0]]}" if names else package


def _ask(python: str) -> dict[str, Any]:
    packages = dict.fromkeys(name for project in projects().values() for name in project.known_packages)
    command = [*processes.python(python), "-B", "-c", QUESTION, *packages]
    for _ in range(2):  # the first may be killed from outside
        try:
            done = processes.run(command, ASK_SECONDS)
        except processes.NotRun as error:
            raise UserError(str(error)) from None
        if not done.code:
            answer: dict[str, Any] = json.loads(done.output)
            return answer
    raise UserError(f"{python}: cannot say what is installed: it ended with {done.code}")


def _system() -> str:
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "Linux")
    except OSError:
        name = "Linux"
    return f"{name}, {platform.system()} {'.'.join(platform.release().split('.')[:2])}"


def _processor() -> dict[str, Any]:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return {"model": platform.processor(), "flags": []}
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", text, re.MULTILINE)
    found = sorted(set(TELLING_FLAGS.findall(flags[1]))) if flags else []
    return {"model": model[1].strip() if model else platform.machine(), "flags": found}
