"""Processes that run a case and may die: the zygote, its workers, their limits and their scratch folders.

In comes a `Job` (a case, a way to run it, limits); out comes a `Run`, with what the end of the process
says. The judge, the probes and `importing.py`'s callers use this room. `worker.py` is one self-
contained file that any Python from 3.8 on can run.
"""
