"""Programs of torch, to the reducer."""

from reducer.graphs import GRAPHS

LANGUAGE = GRAPHS
