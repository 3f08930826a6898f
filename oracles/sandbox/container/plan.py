"""What a launcher is told: the program to start, what it may see, and within which limits."""

from __future__ import annotations

import marshal
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True)
class Plan:
    """One start of a contained program.

    `shown` are files and folders that it may read, at their own paths; `links` symbolic links made beside
    them; `devices` further device files. `work` is the folder that it may write to: one in memory, of
    `work_bytes` at most, or where that is 0 the folder itself. `scratch` is the folder around it, or one
    of the launcher's own beside it; it is removed at the end where `is_removed`. `control` is the
    descriptor that the program inherits, if any, and whose other end tells that crux has gone; on
    `report` the launcher says, as JSON by layer, "" or why a layer is not in force. The program inherits
    the descriptors `inherited`, too; where there are such, its addresses are not random: hash tables of
    C++ libraries are seeded by them, and what is watched is to be the same each time. `bubblewrap` is
    that program's path, or empty. Not `contained`, it starts as it is.
    """

    command: tuple[str, ...]
    environment: dict[str, str]
    scratch: str
    work: str
    control: int
    report: int
    shown: tuple[str, ...] = ()
    links: dict[str, str] = field(default_factory=dict)
    devices: tuple[str, ...] = ()
    work_bytes: int = 1 << 30
    processes: int = 256
    files: int = 1024
    bubblewrap: str = ""
    contained: bool = True
    is_removed: bool = True
    inherited: tuple[int, ...] = ()

    def to_bytes(self) -> bytes:
        """Return the plan as a launcher reads it, which the same interpreter runs."""
        return marshal.dumps(asdict(self))
