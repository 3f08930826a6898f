"""The exceptions of the library."""


class UserError(Exception):
    """A mistake of the caller's, or a hostile file: one line that names what, why and what to do.

    A compiler's failure is a verdict and never becomes a `UserError`.
    """


class DoesNotFail(Exception):
    """The case that was to be reduced does not fail (any more)."""


class CruxFailed(RuntimeError):
    """A failure of crux itself; the text holds the traceback of its process."""
