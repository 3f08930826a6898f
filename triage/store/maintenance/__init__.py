"""The care of a database: whether it is sound, what nobody needs any more, what leaves and what comes in.

In come a store and paths; out come counts and problems. `crux db` and `crux doctor` call it. What comes from
somebody else is looked at (`foreign`, `unpacking`) before a row of it is believed (`merging`).
"""
