"""What TVMScript that TVM prints may use."""

from __future__ import annotations

from triage.projects import Printed

_NAMES = "R T I Module relax tvm np base64 TypeVar range int float bool"
SCRIPT = Printed(frozenset(_NAMES.split()), frozenset(("typing", "tvm")), frozenset(("ml_dtypes",)))
"""What printed TVMScript may use."""
