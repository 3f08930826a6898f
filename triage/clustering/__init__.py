"""Which failures are one bug: distances between signatures, average linkage, decisions by people.

In come signatures; out come clusters that do not depend on the order of arrival, and the reasons in
words. It keeps what it finds by `store`; `bugs`, `crux triage` and `crux triage traces` call it.
"""
