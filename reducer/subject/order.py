"""What "smaller" means: one total order over subjects."""

from __future__ import annotations

from reducer.subject.base import Size, Subject


def size(subject: Subject) -> Size:
    """Return the subject's place in the total order, smallest first.

    A person reads nodes, so fewer nodes come first, those of bodies and functions included; of two with as
    many nodes the one with fewer bodies, weights in bodies and functions to look into; then the one with
    plainer operators. Then what the nodes still carry: elements that flow in, tensors in and out, axes,
    element types other than the plain ones, attributes, how plain the values are, the case's own passes,
    names that are not ours, how new the operator sets are, and at last bytes. A tie is not smaller. Of
    programs of loops a statement counts as a node.
    """
    return subject.size
