"""Python imports this before a script, because the sandbox puts this folder on the path."""

import os
import sys

if os.environ.get("CRUX_NOTES"):
    sys.path.append(os.environ["CRUX_HOME"])
    from oracles.worker.scripts import recorder

    recorder.begin(os.environ["CRUX_NOTES"])
