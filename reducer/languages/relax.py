"""Relax programs of TVM, to the reducer."""

from __future__ import annotations

from reducer.graphs import GRAPHS

LANGUAGE = GRAPHS
