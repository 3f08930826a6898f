"""Modules of StableHLO in the worker: MLIR's own parser reads them as data, and prints them again.

In comes text or a document of the format `stablehlo`, with the Python bindings of MLIR that a framework
brings (jaxlib's, or those of IREE's compiler); out come documents, types and text. In the worker only.
"""
