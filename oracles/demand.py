"""What a case asks of a backend beyond right results; a setting of the case, so that reduction keeps it."""

from __future__ import annotations

from corpus.case import Case

SETTING = "demand"
REFUSAL = (SETTING, "refusal")
"""The program breaks a rule of its format: every configuration must turn it down, with an error."""
SURVIVAL = (SETTING, "survival")
"""A value in it is out of bounds: results mean nothing, but the process must not die."""

AGREEMENT = (SETTING, "agreement")
"""Nobody knows whether its values are allowed where they go: refusing them is no bug."""


def demands_refusal(case: Case) -> bool:
    """Return whether the program is broken, so that it should be refused."""
    return REFUSAL in case.settings


def demands_survival(case: Case) -> bool:
    """Return whether the process should go on, whatever the program does."""
    return SURVIVAL in case.settings


def demands_agreement(case: Case) -> bool:
    """Return whether a refusal is right if every configuration refuses."""
    return AGREEMENT in case.settings
