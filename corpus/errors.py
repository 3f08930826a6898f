"""The one error that is the user's to mend."""


class UserError(Exception):
    """A mistake of the user's, or a hostile file: one line that names what, why and what to do; exit 2.

    A compiler's failure is data (a verdict) and never becomes a `UserError`; our own failure is any
    other exception (exit 3).
    """
