"""Many programs in one run: how they come, and what is told of each; Python 3.8 syntax.

A program of a batch that fails is reported and left out, so a batch gives no verdicts; it only shows which
programs need one.
"""

import base64
import json
from typing import Any

REPORT = "(report)"
"""The output that holds what is told of each program, as JSON: its `error` and what it `covered`."""


def items_of(program: bytes) -> "list[tuple[bytes, list[str]]]":
    """The program of each item and its own sequence of passes."""
    return [(base64.b64decode(item["program"]), item["passes"]) for item in json.loads(program)["batch"]]


def given_to(number: int, inputs: "dict[str, Any]") -> "dict[str, Any]":
    """The inputs of one program by their own names."""
    prefix = f"{number}/"
    return {name[len(prefix) :]: value for name, value in inputs.items() if name.startswith(prefix)}


def told_of(number: int, outputs: "dict[str, Any]") -> "dict[str, Any]":
    """The outputs of one program by its number."""
    return {f"{number}/{name}": value for name, value in outputs.items()}


def short(error: BaseException) -> str:
    """An error's text for a report."""
    return str(error)[-300:] or type(error).__name__
