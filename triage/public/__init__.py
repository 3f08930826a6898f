"""The library: what `tensorcrux` offers, loaded as parts of that module and never by the name of this room.

It imports nothing of ours but its own files, relatively, so that a caller may have a `corpus.py` or a
`triage/` of its own. The work is done by `triage.library_server` in a process of its own; see `child.py`.
"""
