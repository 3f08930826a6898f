"""What a case asks of a backend beyond right results; a setting of the case, so that reduction keeps it."""

from __future__ import annotations

SETTING = "demand"
REFUSAL = (SETTING, "refusal")
"""The program breaks a rule of its format: every configuration must turn it down, with an error."""
SURVIVAL = (SETTING, "survival")
"""A value in it is out of bounds: results mean nothing, but the process must not die."""

AGREEMENT = (SETTING, "agreement")
"""Nobody knows whether its values are allowed where they go: refusing them is no bug."""
