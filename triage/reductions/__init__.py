"""Reductions asked for by a person or a campaign: folders, failures of a database, their sketches.

In come a case and a `Request`; out comes a folder with the least case, its report data and journal.
`crux reduce` and `crux hunt` call it.
"""
