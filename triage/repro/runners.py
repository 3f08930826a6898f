"""What differs between the scripts for one backend and another, an entry each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from oracles.backends.tvm import code_of
from oracles.run import Config
from oracles.verdict import Outcome
from triage.claims.claim import Expectation
from triage.repro.pasted import elements, encode, onnx_words

Passes = tuple[str, ...]
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
    the script, `settings` the values that the template asks for, of the claim and of the case's own passes.
    `slow` are seconds that a start takes.
    """

    needs: tuple[str, ...]
    module: str
    template: str
    words: tuple[ModuleType, ...]
    settings: Callable[[Expectation, Passes], Mapping[str, Any]]
    slow: float = 0.0

    @property
    def is_onnx(self) -> bool:
        return len(self.words) > 1


def _onnxruntime(expectation: Expectation, passes: Passes) -> Mapping[str, Any]:
    """The settings of onnxruntime's configurations, in its own words."""
    first = expectation.failing.config
    return {
        "levels": {label: LEVELS[str(config.get("level"))] for label, config in expectation.own.items()},
        "providers": list(_texts(first, "providers") or ("CPUExecutionProvider",)),
        "threads": first.get("threads") or 1,
        "disabled": list(_texts(first, "disabled_optimizers")),
    }


def _tvm(expectation: Expectation, passes: Passes) -> Mapping[str, Any]:
    config = expectation.failing.config
    return {name: config.get(name) for name in ("pipeline", "executor")} | {
        "configs": list(expectation.own),
        "sequence": code_of(_own_passes(config, passes)),
        "device": config.get("device") or "cpu",
        "only_compile": config.get("run") == "off",
        "level": config.get("opt-level"),
    }


def _torch(expectation: Expectation, passes: Passes) -> Mapping[str, Any]:
    """A difference of values is shown beside what eager mode gives in float64, as torch asks of fuzzers."""
    ways = {label: config.get("backend") or "eager" for label, config in expectation.own.items()}
    is_of_values = expectation.outcome is Outcome.MISMATCH and expectation.kind in ("value", "nan")
    return {"ways": ways, "has_double": is_of_values and not expectation.is_unstable and len(ways) > 1}


def _relax(expectation: Expectation, passes: Passes) -> Mapping[str, Any]:
    """Each configuration as (pipeline, LLVM's level, executor), and whether the case's passes run first."""
    names, own = ("pipeline", "opt-level", "executor"), expectation.own
    sequenced = {label for label, config in own.items() if _own_passes(config, passes)}
    ways = {
        label: (*(config.get(name) for name in names), *((label in sequenced,) if sequenced else ()))
        for label, config in own.items()
    }
    return {
        "ways": ways,
        "sequence": code_of(passes) if sequenced else (),
        "only_compile": expectation.failing.config.get("run") == "off",
    }


def _own_passes(config: Config, passes: Passes) -> Passes:
    """Which passes run first: those of the case, unless the configuration says which."""
    own = config.get("passes")
    return own if isinstance(own, tuple) else passes


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
