"""Programs that are valid by construction: operator specs, graph growth, values."""
