"""Programs of torch, to the reducer."""

from __future__ import annotations

from reducer.graphs import GRAPHS

LANGUAGE = GRAPHS
