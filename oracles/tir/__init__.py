"""A reference for TIR: an interpreter of `corpus/tir` trees in plain Python and numpy, without
TVM.

In come a module and arrays; out come arrays, which of their elements are defined, and how far rounding may
take each (`interpret`). A value is *undefined* where TVM's semantics leave it open: signed overflow, a
shift beyond the width, a float out of an integer's range, fresh memory. Where control or an address hangs
on such a value, or memory is left, an integer is divided by zero, or iterations of a parallel loop meet,
nothing of the program is defined. Rules and contexts of `oracles/` call it; it imports `corpus` only.
"""
