"""Programs of torch, to the reducer."""

from reducer.language import GRAPHS

LANGUAGE = GRAPHS
