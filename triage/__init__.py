"""Clusters, the store, reports, campaigns, and the command line that composes everything."""

from importlib.util import find_spec
from pathlib import Path

OURS = ("corpus", "oracles", "reducer", "generators", "triage")


def foreign_packages() -> dict[str, str]:
    """Name the modules of ours that Python would load from a foreign package, or not at all."""
    root = Path(__file__).resolve().parents[1]
    found = {}
    for name in OURS:
        spec = find_spec(name)
        place = Path(spec.origin).resolve().parent if spec and spec.origin else None
        if place != root / name:
            found[name] = str(place) if place else "no place"
    return found


for _name, _place in foreign_packages().items():  # before anything of it is run
    raise ImportError(
        f"tensorcrux: the package `{_name}` is found at {_place}, which is not tensorcrux's; "
        "install tensorcrux in an environment of its own"
    )
