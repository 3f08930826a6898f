"""What is known about numbers: how two values differ, what operators do to rounding, NaN and ties.

In come values, models and graphs; out come differences, perturbed copies and float64 copies. It runs no
backend. The table of operators (`operators.py`) owns every fact about an operator's arithmetic. The
probes call this room.
"""
