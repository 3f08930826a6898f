"""Type-directed delta debugging: gate, search, total order, moves. `reducer.api` is the door."""
