"""Growing a graph: choosing the next operator, placing what a rewrite looks for.

In come a scope and a number of nodes; out comes a program. Strategies call it; control-flow operators
reach it through their scope.
"""
