"""Programs with noise of rounding's size put in.

In come a model, the types of its values and a seed; out comes a copy whose floats move as they may when
nothing is wrong. `Perturbation` is the door; what quantisation adds stands in `quantised`, drawing numbers in
`drawing`. The probes call this room.
"""
