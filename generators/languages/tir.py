"""Modules of TVM's PrimFuncs, to what generates them."""

from generators.language.emit import Language

LANGUAGE = Language(brings_passes=True, strategies={"tir": 1.0}, keeps_bounds=False)
