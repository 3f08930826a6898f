"""Recognisers and solvers, shared by the operators whose shapes follow one rule."""
