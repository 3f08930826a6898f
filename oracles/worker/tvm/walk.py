"""Walks over the data of a Relax program: what its graphs read, and which functions they call."""

from typing import Any, Iterator, Mapping  # noqa: UP035 (Python 3.8)


def walk(item: Any) -> Iterator[Any]:
    """Everything inside, bodies included."""
    yield item
    for inner in item if isinstance(item, list) else item.values() if isinstance(item, dict) else ():
        yield from walk(inner)


def called(graph: dict[str, Any], tag: str = "function") -> set[str]:
    """The functions that a graph names, nested bodies included.

    With `extern`, also those of other libraries.
    """
    tagged = (item for item in walk(graph["bindings"]) if isinstance(item, dict) and set(item) == {tag})
    return {item[tag] for item in tagged if isinstance(item[tag], str)}


def bound_symbols(graph: dict[str, Any]) -> set[str]:
    """The symbols that stand alone as dims of a function's parameters, or of what is cast within it."""
    found: set[str] = set()
    for item in walk(graph):
        if isinstance(item, dict) and "inputs" in item and "bindings" in item:
            found.update(alone(item["inputs"]))
        elif isinstance(item, list) and len(item) == 4 and item[1] == "match_cast":
            found.update(alone(item[2][1]))
    return found


def alone(item: Any) -> Iterator[str]:
    """Texts that are one name."""
    return (each for each in walk(item) if isinstance(each, str) and each.isidentifier())


def has_local_functions(document: dict[str, Any]) -> bool:
    """Whether a function of the program defines another one within it."""
    graphs = [document["main"], *document["functions"].values()]
    items = (item for graph in graphs for item in walk(graph["bindings"]))
    return any(isinstance(item, list) and len(item) == 4 and item[1] == "function" for item in items)


def reads(args: list[Any]) -> set[str]:
    """The names that arguments read; a body's results count as read."""
    found = {item["ref"] for item in walk(args) if isinstance(item, dict) and set(item) == {"ref"}}
    for item in walk(args):
        if isinstance(item, dict) and "outputs" in item and "bindings" in item:
            found.update(item["outputs"])
    return found


def in_circles(graphs: Mapping[str, dict[str, Any]]) -> list[str]:
    """The functions that call themselves, by way of others too."""
    calls = {name: called(graph) & graphs.keys() for name, graph in graphs.items()}
    return [name for name in graphs if name in reached(name, calls)]


def reached(name: str, calls: Mapping[str, set[str]]) -> set[str]:
    """All functions that a function calls, directly or not."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        fresh = calls[waiting.pop()] - found
        found |= fresh
        waiting += fresh
    return found
