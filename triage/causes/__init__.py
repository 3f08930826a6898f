"""What follows from what: a failure that is another face of a bug, or that a known bug explains.

In come a failure (reduced, or not yet) and a judge; out come the root of a consequence, or the bug that
explains it, each with the checks that decided. Reductions and campaigns call this room; it writes nothing.
"""
