"""What several backends share in the worker: Python 3.8 syntax, numpy and the framework only."""
