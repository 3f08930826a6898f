"""Relax programs of TVM, to the reducer."""

from reducer.language import GRAPHS

LANGUAGE = GRAPHS
