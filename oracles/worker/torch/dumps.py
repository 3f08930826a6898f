"""What torch itself dumps of a failing graph: `fx_graph_runnable.py`, `repro.py`, `minifier_launcher.py`.

Such a file (of TORCHDYNAMO_REPRO_AFTER or TORCH_COMPILE_DEBUG) makes a module `mod`, and `load_args` reads
its inputs from the folder that was saved beside it, or else makes random ones. It is run up to there, not as
a program. AOTInductor's minifier writes another kind: its graph and inputs are an exported program beside it.
"""

from __future__ import annotations

import os
import re
from typing import Any

import torch

MAKER = re.compile(r"^from torch\._dynamo\.repro\.\w+ import run_repro", re.MULTILINE)
INDENTED = re.compile(r"^\s+from torch\._dynamo\.repro\.(after_aot|after_dynamo) import", re.MULTILINE)
CACHE = re.compile(r"^os\.environ\[[^\]]*\] *= *.*$", re.MULTILINE)
"""A dump's own settings of the environment name folders of another machine."""
OF_AOTI = re.compile(r"^\s+from torch\._dynamo\.repro\.aoti import run_repro", re.MULTILINE)
ARCHIVE = re.compile(r"^exported_program = torch\.export\.load\('([^']*)'\)", re.MULTILINE)
SAVED = re.compile(r"save_dir=(?:r?'([^']*)'|r?\"([^\"]*)\")")


def is_dump(text: str) -> bool:
    """Whether a script is one that torch has dumped."""
    return bool(MAKER.search(text) or INDENTED.search(text)) and "def load_args(" in text


def read_dump(name: str, text: str) -> tuple[Any, list[Any]]:
    """The module and the list of its inputs; random inputs are the same every time."""
    from torch._dynamo.debug_utils import InputReader

    space: dict[str, Any] = {"__name__": "dumped", "__file__": name}
    exec(compile(CACHE.sub("", text), name, "exec"), space)
    torch.manual_seed(0)
    reader = InputReader(save_dir=saved_beside(name, text))
    space["load_args"](reader)
    module = space["mod"]
    return module.eval() if isinstance(module, torch.nn.Module) else module, list(reader.args)


def saved_beside(name: str, text: str) -> str | None:
    """The folder of saved inputs: where the dump says, or of that name beside it; else None."""
    found = SAVED.search(text)
    if not found:
        return None
    named = found.group(1) or found.group(2)
    beside = os.path.join(os.path.dirname(name), os.path.basename(named.rstrip("/")))
    return next((folder for folder in (named, beside) if os.path.isdir(folder)), None)


def is_of_aoti(text: str) -> bool:
    """Whether a script is one that AOTInductor's minifier has written."""
    return bool(OF_AOTI.search(text) and ARCHIVE.search(text))


def archive_of(name: str, text: str) -> str:
    """The file of the exported program that such a script loads: where it says, or beside the script.

    Raises FileNotFoundError where it is at neither place.
    """
    found = ARCHIVE.search(text)
    named = found.group(1) if found else ""
    folder, kept = os.path.dirname(name), os.path.basename(os.path.dirname(named))
    places = [
        os.path.join(folder, kept, os.path.basename(named)),
        os.path.join(folder, os.path.basename(named)),
    ]
    for place in (named, *places):
        if os.path.isfile(place):
            return place
    raise FileNotFoundError(f"its exported program is not there; keep {named!r} or put it beside the script")
