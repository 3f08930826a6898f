"""Type-directed delta debugging: the gate, the search, the total order, the passes."""
