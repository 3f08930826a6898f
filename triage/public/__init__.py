"""The library: what the module `tensorcrux` offers to other programs and to tests.

A model comes in as a file, a case folder, bytes, an ONNX model, an exported program or a `Case`; a verdict, a
reduction, a bundle or new cases go out. Errors are `UserError` with the line that the command line prints.
`tensorcrux.py` and the pytest plugin enter here, nothing of crux does.
"""
