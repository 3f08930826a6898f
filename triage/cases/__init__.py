"""Cases on their way in: what a user names, opened, judged, replayed, and documented tests read.

In come paths, ids and options; out come `Case`s and verdicts. Commands, reductions and bisection call
it.
"""
