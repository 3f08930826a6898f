"""Code that is pasted into `repro.py`: it stands alone there, so it imports nothing of crux.

In come values and types at report time; out come source lines. Only `triage/repro` reads it.
"""
