"""Modules of TVM's PrimFuncs, to what generates them."""

from __future__ import annotations

from generators.language.record import Language

LANGUAGE = Language(brings_passes=True, strategies={"tir": 1.0})
