"""A finding about this machine, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One part: whether it works, what there is to say of it, and whether crux is broken without it.

    `advice` is what to do where it does not work; empty where nothing is to be done.
    """

    part: str
    works: bool
    text: str
    core: bool
    advice: str = ""


EXTRAS = {"apache-tvm": "tvm", "apache-tvm-ffi": "tvm", "torch": "torch", "z3-solver": "smt"}
"""The extra that brings a package; the others come with crux itself."""


def how_to_install(package: str) -> str:
    """What brings a package that is missing."""
    extra = EXTRAS.get(package)
    wanted = f"tensorcrux[{extra}]" if extra else "tensorcrux"
    return f"pip install --constraint constraints.txt '{wanted}', or start bin/crux, which does"
