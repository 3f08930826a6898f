"""A module under `torch.compile`, which says when what it made is called."""

from __future__ import annotations

from typing import Any, Callable  # noqa: UP035 (Python 3.8)

import torch


def compiled(module: Any, backend: str, enter: Callable[[str], None], dynamic: Any = False) -> Any:
    """The phase is *codegen* from here on, and *execute* once what was made of the module is called."""
    enter("codegen")
    torch._dynamo.reset()
    make = torch._dynamo.lookup_backend(backend)

    def making(graph: Any, examples: Any, **options: Any) -> Any:
        made = make(graph, examples, **options)

        def called(*values: Any) -> Any:
            enter("execute")
            return made(*values)

        return called

    # of a graph its forward: what the module's own call does with an error would be compiled, and hide it
    entry = module.forward if isinstance(module, torch.fx.GraphModule) else module
    making.__name__ = backend  # messages name it
    return torch.compile(entry, backend=making, fullgraph=True, dynamic=dynamic)
