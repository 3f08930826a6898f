"""Inputs for which a foreign model's values stay finite.

In come a model and a recorded run; out come inputs, drawn within the guards of the first node that went
wrong, taken back through the nodes before it (NNSmith, section 3.3), or solved by boxes around all values:
`boxes`, `one_operand`, `two_operands` and `contracting` say what values may be, `solving` chooses among them.
`triage/cases/sources.py` calls it.
"""
