"""The search's machinery: rounds of moves, one gate for every candidate, the journal, speculation.

In come a subject, the moves and a predicate; out comes the smallest subject found, with every answer on
disk before it is used. `reducer/session.py` drives it; moves never call it.
"""
