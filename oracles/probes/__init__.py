"""Further questions about a case, each answered by running something more.

In come a case and its runs; out comes how far rounding reaches, the float64 truth, the first tensor at
which two ways part, one node alone, the passes that fired, every intermediate value. Rules reach this
room through `context.py`.
"""
