"""TVM's half in the worker: Relax modules read, built, printed, watched, and run through passes.

In comes a program as plain data; out come modules, runs, logs. Called by `oracles/backends/tvm.py` in
the worker only. Python 3.8 syntax, numpy and TVM; nothing of crux outside `oracles.worker`.
"""
