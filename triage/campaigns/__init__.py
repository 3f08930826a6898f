"""Campaigns: fuzzing with several processes, what they avoid, and `crux hunt` from seed to report.

In come a target, a budget and a database; out come stored failures, reductions and reports. Only
commands call it.
"""
