"""TIR programs as data: modules of PrimFuncs in a small typed tree, without TVM.

In come a document (`program.tir.json`) or a tree that a worker read; out go trees, documents, TVMScript text,
sizes and findings about well-formedness. Generators and the reducer change trees; `oracles/tir` runs them.
Anybody may import this room; it imports only `corpus.errors` and numpy's dtypes.

`values.py` and `tree.py` declare every kind of node: a frozen dataclass whose field types say what they hold,
and under `@form` the node's JSON (`forms.py`). Reading, writing, walking, renaming, the order in which names
are checked, and the lines of the document come from there.

To add an intrinsic: one line in `INTRINSICS` of `typing.py`: its name, operands and result. The
document, the checker, TVMScript and the worker take it from there; `oracles/tir/scalars.py` gets a numpy
function if the interpreter shall know it (without one, what depends on its results is undefined), and
`generators/tir/ranged.py` a line if programs shall call it.

To add a kind of statement: (1) its class in `tree.py`; (2) its text in `script.py`, and a rule in the table
of `scopes.py` if its operands must suit each other; (3) its node in the worker
(`oracles/worker/tvm/tir/build.py` and `read.py`); (4) what it does in `oracles/tir/statements.py`. The
tests of these rooms name a table that was left out. If it holds statements, `generators/tir/frame.py` says
what is visible in them, and in the reducer `moves/tir/body.py` what it gives way to,
`subject/tir_subject.py` when it is empty, and `subject/order.py` that it nests. Programs hold it once a
maker of `generators/tir/statements.py` or a mutator makes it.
"""
