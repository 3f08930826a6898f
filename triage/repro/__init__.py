"""`repro.py`: a failing case as one script that needs the failing package and numpy, and nothing of crux.

In come a case and its claim; out come a script in the project's own words, and its proof in fresh processes.
Reductions and reports call it. `pasted` holds code that is copied into scripts as it stands.
"""
