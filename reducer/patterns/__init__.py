"""Optimisation patterns made least: the fewest nodes on which a pass fires, then what these can let go of.

In come a model and a question about it (does this pass fire); out comes the least graph. `crux patterns
extract` calls it.
"""
