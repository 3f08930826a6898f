"""`repro.py`: a failing case as one script that needs the failing package and numpy, and nothing of crux."""
