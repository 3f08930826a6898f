"""Growing a graph: choosing the next operator, placing fragments, identities and rewrite paths.

In come a scope and a number of nodes; out comes a program. Strategies call it; control-flow operators
reach it through their scope.
"""
