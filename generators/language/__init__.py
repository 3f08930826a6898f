"""The language that programs are grown in: operators, operands, types, ranges, scopes, draws, emission.

In come draws from a seed; out come nodes with their types and value ranges, and protobufs. Every other
room of `generators` stands on this one.
"""
