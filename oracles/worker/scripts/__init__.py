"""What runs in the processes of a user's script: it notes what the script gives to frameworks.

`start/` is a folder for PYTHONPATH, so that every Python process of the script begins with `recorder.begin`.
`oracles/sandbox/scripts.py` starts the script and reads the notes.
"""
