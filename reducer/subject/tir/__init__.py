"""TIR modules as subjects: the typed tree, with the inputs of its first function.

In comes a module with its inputs; out come smaller modules that are well formed, and defined where
the original is. The moves of `reducer/moves/tir` call it.
"""
