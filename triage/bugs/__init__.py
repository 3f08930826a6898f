"""Bugs as people see them: failures recorded into clusters, their history, known issues, the overview.

In come failures with signatures; out come documents of clusters with status, counts and what is known. It
asks `store` for rows and `clustering` for places; commands, campaigns, pages and reports call it.
"""
