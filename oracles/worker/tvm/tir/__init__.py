"""TVM's PrimFuncs in the worker: built from plain data, read back as data, lowered and run.

In come documents of the format `tir`; out come modules, documents and runs. The TVM backend and the reader
of users' files call it. Python 3.8 syntax.
"""
