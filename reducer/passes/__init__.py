"""Reduction passes, one idea a file; each file registers its passes by being here."""
