"""Moves for graphs of bindings (`torch`, `relax`): bodies, element types, forms, scopes.

In comes a graph subject; out come proposals, as from every file of `reducer/moves`. The walk of moves
includes this folder.
"""
