"""What a Relax program means, in numpy: floats in float64, integers in their own types.

A program's document comes in (`corpus.graphs.program`), the values of its outputs go out. No line of TVM
takes part, so a result that all of TVM's ways agree on can still be told wrong. The worker of the backend
`golden` runs it; the generator of Relax programs asks it what a call gives.
"""
