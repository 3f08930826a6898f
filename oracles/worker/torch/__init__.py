"""torch's half in the worker: programs captured, built, compiled, printed, and watched.

In comes a program as plain data; out come modules, runs, logs. Called by the backends `torch` and
`inductor`, in the worker only. Python 3.8 syntax, numpy and torch; nothing of crux outside
`oracles.worker`.
"""
