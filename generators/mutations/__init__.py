"""What happens to a grown program: violations, hazards, NaN and infinity, nodes behind function calls.

In comes a program; out comes the changed case and what it owes (`modes.py`). Strategies and the mixture
call it.
"""
