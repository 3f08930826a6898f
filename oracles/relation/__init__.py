"""What a declaration of an operator is made of: types, calls, ranges, arithmetic, ways back, its scope.

In comes what a family in `oracles/operators/` says of its operators; out goes one record for each, which the
judge asks how it rounds, and the generators for types, ranges, draws and solutions.
"""
