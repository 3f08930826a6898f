"""Programs of torch, to the judge."""

from oracles.abilities import Language
from oracles.naming import names_of_graph, pattern_of_graph
from oracles.probes.graph_context import open_graph

LANGUAGE = Language(
    open=open_graph,
    names=names_of_graph,
    pattern=pattern_of_graph,
    arithmetic=("torch.mul", "torch.add", "torch.sub"),
)
