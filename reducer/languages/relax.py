"""Relax programs of TVM, to the reducer."""

from reducer.graphs import GRAPHS

LANGUAGE = GRAPHS
