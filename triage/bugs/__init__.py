"""Failures and bugs as the database knows them: ids, history, known issues, merging, the overview.

In come failures with signatures; out come clusters with status, owner, links and counts. Commands,
pages and reports read it.
"""
