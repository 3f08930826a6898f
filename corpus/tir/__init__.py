"""Programs of TVM's loop IR as data: modules of PrimFuncs in a small typed tree, without TVM.

In comes a document (`program.tir.json`) or a tree that a worker read; out go trees, documents, TVMScript
text, sizes and findings about well-formedness. Generators and the reducer change trees; `oracles/tir` runs
them. Anybody may import this room; it imports only `corpus.errors` and numpy's dtypes.

To add an intrinsic: one line in `INTRINSICS` of `corpus/tir/intrinsics.py`: its name, operands, result,
effect. The document, the checker, TVMScript and the worker take it from there; `oracles/tir/intrinsics.py`
gets a numpy function if the interpreter shall know it (without one, what depends on its results is
undefined), and `generators/tir/functions.py` a line if programs shall call it.

To add a kind of statement: (1) a frozen dataclass in `corpus/tir/tree.py`, whose fields `walk.py` finds by
itself; (2) a line in the table at the end of each of `encode.py`, `decode.py` and `script.py` here: the
document, and TVMScript; (3) what it defines in `scopes.py`; (4) its node in the worker
(`oracles/worker/tvm/loops/build.py` and `read.py`); (5) what it does in `oracles/tir/statements.py`.
`tests/corpus/tir/test_tree.py` and `tests/oracles/test_tir_nodes.py` name a table that was left out. If it
holds statements, `frame.py` and `costs.py` in `generators/tir`, and in the reducer
`moves/loops/unwrapping.py`, `subject/loops/edits.py` and `subject/loop_counts.py` are told so. Programs hold
it once a maker of `generators/tir/statements.py` or a mutator makes it.
"""
