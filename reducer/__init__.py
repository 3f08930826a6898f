"""Type-directed delta debugging: the gate, the search, the total order, the moves (`reducer.api` is the door)."""
