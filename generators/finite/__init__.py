"""Inputs for which a foreign model's values stay finite.

In come a model and a recorded run; out come inputs, drawn within the guards of the first node that went
wrong, taken back through the nodes before it (NNSmith, section 3.3). `triage/cases/sources.py` calls
it.
"""
