"""What several operator entries share: recognisers and solvers of one shape rule, torch's promotion.

In come a wanted type or operands; out come operands and attributes for it, or None. Files in
`generators/ops` call it.
"""
