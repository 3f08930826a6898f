"""What differs between the scripts for one backend and another, an entry each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from oracles.run import Config
from triage.expectation import Expectation
from triage.repro import elements, encode, onnx_words

LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}


@dataclass(frozen=True)
class Runner:
    """`words` are the modules whose text builds the model; none for a program that is not ONNX's.

    `needs` is what has to be installed besides numpy, `module` what it is imported as, `template` its part of
    the script, `settings` the values that the template asks for. `slow` are seconds that a start takes.
    """

    needs: tuple[str, ...]
    module: str
    template: str
    words: tuple[ModuleType, ...]
    settings: Callable[[Expectation], Mapping[str, Any]]
    slow: float = 0.0

    @property
    def is_onnx(self) -> bool:
        return len(self.words) > 1


def _onnxruntime(expectation: Expectation) -> Mapping[str, Any]:
    """The settings of onnxruntime's configurations, in its own words."""
    first = expectation.failing.config
    return {
        "levels": {label: LEVELS[str(config.get("level"))] for label, config in expectation.own.items()},
        "providers": list(_texts(first, "providers") or ("CPUExecutionProvider",)),
        "threads": first.get("threads") or 1,
        "disabled": list(_texts(first, "disabled_optimizers")),
    }


def _tvm(expectation: Expectation) -> Mapping[str, Any]:
    config = expectation.failing.config
    return {name: config.get(name) for name in ("pipeline", "executor")} | {
        "configs": list(expectation.own),
        "device": config.get("device") or "cpu",
        "only_compile": config.get("run") == "off",
        "level": config.get("opt-level"),
    }


def _torch(expectation: Expectation) -> Mapping[str, Any]:
    return {"ways": {label: config.get("backend") or "eager" for label, config in expectation.own.items()}}


def _relax(expectation: Expectation) -> Mapping[str, Any]:
    """Each configuration as (pipeline, LLVM's level, executor)."""
    names = ("pipeline", "opt-level", "executor")
    ways = {label: tuple(config.get(name) for name in names) for label, config in expectation.own.items()}
    return {"ways": ways, "only_compile": expectation.failing.config.get("run") == "off"}


def runner_of(backend: str, format: str) -> Runner:
    """The script's runner for programs of a format on a backend."""
    return RUNNERS["relax"] if format == "relax" else RUNNERS[backend]


def _texts(config: Config, key: str) -> tuple[str, ...]:
    found = config.get(key)
    return found if isinstance(found, tuple) else ()


RUNNERS = {
    "ort": Runner(("onnxruntime",), "onnxruntime", "runner_ort.py.j2", (elements, encode), _onnxruntime),
    "tvm": Runner(("apache-tvm", "onnx"), "tvm", "runner_tvm.py.j2", (elements, onnx_words), _tvm, slow=20.0),
    "relax": Runner(("apache-tvm",), "tvm", "runner_relax.py.j2", (elements,), _relax, slow=20.0),
    "torch": Runner(("torch",), "torch", "runner_torch.py.j2", (elements,), _torch, slow=20.0),
    "inductor": Runner(("torch",), "torch", "runner_torch.py.j2", (elements,), _torch, slow=210.0),
}
