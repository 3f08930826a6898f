"""PrimFuncs of loops for `call_tir`, out of what the strategy `tir` draws: a type and draws in, a tree out.

Relax's passes take a function of one root block whose statements are blocks that say what they read and
write, which writes to nothing that it is given, and to all of its result. `stages.py` makes these; the form
`loops` calls it and the interpreter of `oracles/tir` says whether all of a result is defined.
"""
