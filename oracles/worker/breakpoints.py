"""Breakpoints in the framework's own code, seen from the worker: see `oracles/native/breakpoints.c`."""

import ctypes
import os
from typing import Any


class Breakpoints:
    """The handler's library with the tables that crux named: `HANDLER,SHARED,TABLE:FIRST,…` (descriptors).

    Without an option nothing is armed and every call does nothing.
    """

    def __init__(self, option: str) -> None:
        self._handler: Any = None
        self.complaint = ""
        if option:
            self._load(*option.split(","))

    def _load(self, path: str, shared: str, *tables: str) -> None:
        try:
            self._handler = ctypes.CDLL(path)
        except OSError as error:
            self.complaint = str(error)
            return
        self._handler.crux_arm.restype = ctypes.c_long
        self._shared = int(shared)
        self._tables = [tuple(map(int, table.split(":"))) for table in tables]

    @property
    def is_armed(self) -> bool:
        """Whether the code of some library is watched."""
        return self._handler is not None

    def arm(self) -> int:
        """Set the breakpoints of every library that is loaded; how many there are.

        A system that forbids writing to code leaves its reason in `complaint`.
        """
        total = 0
        for descriptor, first in self._tables if self._handler else ():
            count = self._handler.crux_arm(descriptor, self._shared, ctypes.c_uint32(first))
            if count < 0:
                self.complaint = f"code cannot be written to ({os.strerror(-count)})"
                self._handler = None
                return 0
            total += count
        return total

    def leave_out(self) -> None:
        """Forget the functions met so far: what the warm-up enters every test enters."""
        if self._handler:
            self._handler.crux_leave_out()

    def begin(self) -> None:
        """Start a test: report each function again when it is entered."""
        if self._handler:
            self._handler.crux_begin()

    def settle(self) -> None:
        """Before a fork: what any worker has met is no longer asked of the next one."""
        if self._handler:
            self._handler.crux_settle()
