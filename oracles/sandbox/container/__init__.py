"""Containment from outside: what starts an interpreter so that it can do no harm, before it runs.

In comes a program with what it may see (`start.start`); out comes a running process whose launcher stays
outside, ends it and removes its folder, and by layer whether the containment is in force. Only
`processes.py` beside this room calls it. `launcher.py` is run as a script by crux's own interpreter and
imports nothing but its neighbours here.
"""
