"""Programs grown around an optimisation pattern.

In come a pattern and a context; out comes a program in which the pattern's operands are context values
and its outputs are used again. The strategy `patterns` calls it (OATest).
"""
