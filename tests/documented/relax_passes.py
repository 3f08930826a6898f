"""Documented tests of our own for TVM's passes: a module for each rewrite that grown programs seldom meet.

`crux patterns extract tests/documented --target tvm --trust` takes patterns out of them.
"""

import tvm
from tvm import relax

HEADER = """

@I.ir_module(check_well_formed=False)
class Module:
"""
MATRIX = "x: R.Tensor((4, 4), 'float32')"
IMAGE = "x: R.Tensor((1, 4, 6, 6), 'float32')"
TWICE = """
    @T.prim_func(private=True, s_tir=True)
    def twice(a: T.Buffer((4, 4), "float32"), b: T.Buffer((4, 4), "float32")):
        for i, j in T.grid(4, 4):
            with T.sblock("twice"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = a[vi, vj] * T.float32(2)
"""


def flow(params: str, *lines: str, outputs: str = "gv", rest: str = "") -> tvm.IRModule:
    """The module of one function whose body is a dataflow block of these lines."""
    body = "".join(f"            {line}\n" for line in lines)
    text = f"    @R.function\n    def main({params}):\n        with R.dataflow():\n{body}"
    shown = outputs if "," not in outputs else f"({outputs})"
    return module(f"{rest}{text}            R.output({outputs})\n        return {shown}\n")


def plain(params: str, *lines: str, rest: str = "") -> tvm.IRModule:
    """The module of one function of these lines, in no dataflow block."""
    return module(
        f"{rest}    @R.function\n    def main({params}):\n" + "".join(f"        {one}\n" for one in lines)
    )


def module(text: str) -> tvm.IRModule:
    return tvm.script.from_source(HEADER + text)


def run(name: str, *modules: tvm.IRModule, arguments: tuple[object, ...] = ()) -> None:
    """The pass on each of these modules."""
    with tvm.target.Target("llvm"):
        for each in modules:
            getattr(relax.transform, name)(*arguments)(each)


def test_products_in_another_order():
    run(
        "AdjustMatmulOrder",
        flow(
            "x: R.Tensor((1, 8), 'float32'), a: R.Tensor((8, 2), 'float32'), b: R.Tensor((2, 8), 'float32')",
            "w = R.matmul(a, b)",
            "gv = R.matmul(x, w)",
        ),
        flow(
            "x: R.Tensor((8, 2), 'float32'), a: R.Tensor((2, 8), 'float32'), b: R.Tensor((8, 1), 'float32')",
            "w = R.matmul(x, a)",
            "gv = R.matmul(w, b)",
        ),
    )


def test_a_product_of_a_sum():
    run(
        "ExpandMatmulOfSum",
        flow(
            f"{MATRIX}, a: R.Tensor((4, 4), 'float32'), b: R.Tensor((4, 4), 'float32')",
            "w = R.add(a, b)",
            "gv = R.matmul(x, w)",
        ),
        flow(
            f"{MATRIX}, a: R.Tensor((4, 1), 'float32'), b: R.Tensor((1, 4), 'float32'), "
            "c: R.Tensor((4, 4), 'float32')",
            "p = R.matmul(a, b)",
            "w = R.add(c, p)",
            "gv = R.matmul(x, w)",
        ),
    )


def test_products_beside_each_other():
    weights = "a: R.Tensor((4, 3), 'float32'), b: R.Tensor((4, 2), 'float32')"
    run(
        "CombineParallelMatmul",
        flow(f"{MATRIX}, {weights}", "p = R.matmul(x, a)", "q = R.matmul(x, b)", outputs="p, q"),
        flow(
            f"{MATRIX}, {weights}, c: R.Tensor((3,), 'float32'), d: R.Tensor((2,), 'float32')",
            "p0 = R.matmul(x, a)",
            "p = R.add(p0, c)",
            "q0 = R.matmul(x, b)",
            "q = R.add(q0, d)",
            outputs="p, q",
        ),
    )


def test_common_subexpressions():
    run(
        "EliminateCommonSubexpr",
        flow(MATRIX, "a = R.exp(x)", "b = R.exp(x)", "gv = R.multiply(a, b)"),
        flow(
            f"{MATRIX}, y: R.Tensor((4, 4), 'float32')",
            "a = R.add(x, y)",
            "c = R.sqrt(R.abs(a))",
            "b = R.add(x, y)",
            "gv = R.subtract(c, b)",
        ),
        plain(MATRIX, "a = R.tanh(x)", "b = R.tanh(x)", "gv = R.add(a, b)", "return gv"),
    )


def test_tuples_as_arguments():
    helper = """
    @R.function(private=True)
    def helper(args: R.Tuple(R.Tensor((4, 4), "float32"), R.Tensor((4, 4), "float32"))):
        a = args[0]
        b = args[1]
        gv = R.add(a, b)
        return gv
"""
    run(
        "ExpandTupleArguments",
        plain(MATRIX, "args = (x, x)", "gv = Module.helper(args)", "return gv", rest=helper),
    )


def test_unused_parts_of_private_functions():
    helper = """
    @R.function(private=True)
    def helper(a: R.Tensor((4, 4), "float32"), b: R.Tensor((4, 4), "float32")):
        c = R.exp(a)
        d = R.tanh(a)
        return (c, d)
"""
    made = plain(MATRIX, "t = Module.helper(x, x)", "gv = t[0]", "return gv", rest=helper)
    run("RemoveUnusedParameters", made)
    run("RemoveUnusedOutputs", made)
    run("InlinePrivateFunctions", made)


def test_normalised_convolution():
    norm = "{0} = R.nn.batch_norm({1}, g, b, m, v, axis=1)"
    params = ", ".join(f"{name}: R.Tensor((3,), 'float32')" for name in "gbmv")
    run(
        "FoldBatchnormToConv2D",
        flow(
            f"{IMAGE}, w: R.Tensor((3, 4, 3, 3), 'float32'), {params}",
            "c = R.nn.conv2d(x, w)",
            norm.format("n", "c"),
            "gv = n[0]",
        ),
    )
    run(
        "DecomposeOpsForInference",
        flow(f"x: R.Tensor((1, 3, 4, 4), 'float32'), {params}", norm.format("n", "x"), "gv = n[0]"),
    )
    run(
        "DecomposeOpsForTraining",
        flow(f"x: R.Tensor((1, 3, 4, 4), 'float32'), {params}", norm.format("n", "x"), "gv = n[0]"),
    )


def test_a_transposed_operand():
    run(
        "FuseTransposeMatmul",
        flow(f"{MATRIX}, w: R.Tensor((3, 4), 'float32')", "t = R.permute_dims(w)", "gv = R.matmul(x, t)"),
        flow(
            "x: R.Tensor((2, 3, 4), 'float32'), w: R.Tensor((2, 5, 4), 'float32')",
            "t = R.permute_dims(w, axes=[0, 2, 1])",
            "gv = R.matmul(x, t)",
        ),
    )


def test_local_functions():
    inner = [
        "@R.function",
        "def inner(a: R.Tensor((4, 4), 'float32')) -> R.Tensor((4, 4), 'float32'):",
        "    b = R.add(a, {0})",
        "    return b",
        "gv = inner(x)",
        "return gv",
    ]
    for held in ("a", "x"):
        run("LambdaLift", plain(MATRIX, *(line.format(held) for line in inner)))


def test_what_moves_behind_a_concatenation_or_a_product():
    run(
        "ReorderPermuteDimsAfterConcat",
        flow(
            f"{MATRIX}, y: R.Tensor((4, 4), 'float32')",
            "a = R.permute_dims(x)",
            "b = R.permute_dims(y)",
            "gv = R.concat((a, b), axis=1)",
        ),
    )
    run(
        "ReorderTakeAfterMatmul",
        flow(
            f"{MATRIX}, w: R.Tensor((4, 6), 'float32'), i: R.Tensor((3,), 'int64')",
            "t = R.take(w, i, axis=1)",
            "gv = R.matmul(x, t)",
        ),
    )


def test_reshapes_and_casts():
    run(
        "RemoveRedundantReshape",
        flow("x: R.Tensor((4, 6), 'float32')", "a = R.reshape(x, (2, 12))", "gv = R.reshape(a, (24,))"),
        flow("x: R.Tensor((4, 6), 'float32')", "a = R.reshape(x, (4, 6))", "gv = R.exp(a)"),
    )
    run(
        "CanonicalizeBindings",
        plain(
            MATRIX, "y = x", "z = R.match_cast(y, R.Tensor((4, 4), 'float32'))", "gv = R.exp(z)", "return gv"
        ),
        flow(
            "x: R.Tensor((4, 4), 'float32'), y: R.Tensor((2,), 'float32')",
            "t = (x, y)",
            "a = t[0]",
            "gv = R.exp(a)",
        ),
    )
    run("Normalize", plain(MATRIX, "gv = R.exp(R.tanh(R.add(x, x)))", "return gv"))


def test_constants():
    run(
        "FoldConstant",
        flow(MATRIX, "c = R.add(R.const(1.0, 'float32'), R.const(2.0, 'float32'))", "gv = R.multiply(x, c)"),
        flow(MATRIX, "c = R.full((4, 4), R.const(2.0, 'float32'))", "d = R.exp(c)", "gv = R.add(x, d)"),
    )


def test_fast_mathematics_and_precision():
    for name in ("exp", "tanh", "erf"):
        run("FastMathTransform", flow(MATRIX, f"a = R.{name}(x)", "gv = R.add(a, x)"))
    run("FastMathTransform", flow(MATRIX, "gv = R.nn.softmax(x)"))
    run(
        "ToMixedPrecision",
        flow(f"{MATRIX}, w: R.Tensor((4, 3), 'float32')", "a = R.matmul(x, w)", "gv = R.exp(a)"),
        flow(f"{IMAGE}, w: R.Tensor((3, 4, 3, 3), 'float32')", "a = R.nn.conv2d(x, w)", "gv = R.nn.relu(a)"),
    )


def test_parameters_of_models():
    made = plain(
        f"{MATRIX}, w: R.Tensor((3, 4), 'float32'), b: R.Tensor((3,), 'float32')",
        "R.func_attr({'num_input': 1})",
        "with R.dataflow():",
        "    t = R.permute_dims(w)",
        "    p = R.matmul(x, t)",
        "    gv = R.add(p, b)",
        "    R.output(gv)",
        "return gv",
    )
    for name in ("LiftTransformParams", "BundleModelParams", "LazyGetInput"):
        run(name, made)
    run("LazySetOutput", plain(MATRIX, "a = R.exp(x)", "b = R.tanh(x)", "return (a, b)"))


def test_layouts_of_convolutions():
    conv = flow(
        f"{IMAGE}, w: R.Tensor((3, 4, 3, 3), 'float32')",
        "a = R.nn.conv2d(x, w)",
        "b = R.nn.relu(a)",
        "gv = R.nn.max_pool2d(b, pool_size=[2, 2])",
    )
    run("ConvertLayout", conv, arguments=({"relax.nn.conv2d": ["NHWC", "OHWI"]},))


def test_sorting_and_scanning():
    for line in (
        "gv = R.sort(x, axis=-1)",
        "gv = R.argsort(x, axis=0)",
        "gv = R.cumsum(x, axis=1)",
        "gv = R.topk(x, k=2, axis=-1, ret_type='values')",
    ):
        with tvm.target.Target("llvm"):
            tvm.relax.backend.DispatchSortScan()(flow(MATRIX, line))


def test_sampling():
    with tvm.target.Target("llvm"):
        tvm.relax.backend.DispatchSampling()(
            flow(
                "p: R.Tensor((2, 4), 'float32'), u: R.Tensor((3, 1), 'float32'), "
                "i: R.Tensor((3, 1), 'int64')",
                "gv = R.multinomial_from_uniform(p, u, i, dtype='int64')",
            )
        )


def test_calls_of_primfuncs():
    called = "R.call_tir(Module.twice, ({0},), out_ty=R.Tensor((4, 4), dtype='float32'))"
    once = flow(MATRIX, f"a = {called.format('x')}", f"gv = {called.format('a')}", rest=TWICE)
    run("AnnotateTIROpPattern", once)
    patterned = relax.transform.AnnotateTIROpPattern()(once)
    run("FuseOps", patterned)
    run("FuseTIR", relax.transform.FuseOps()(patterned))
    unchecked = relax.transform.RemovePurityChecking()(relax.transform.ToNonDataflow()(once))
    run("CallTIRRewrite", unchecked)
    lowered = relax.transform.CallTIRRewrite()(unchecked)
    run("StaticPlanBlockMemory", lowered)
    run("LowerAllocTensor", lowered)
    run(
        "KillAfterLastUse",
        relax.transform.LowerAllocTensor()(relax.transform.StaticPlanBlockMemory()(lowered)),
    )
    run("KillAfterLastUse", flow(MATRIX, "a = R.exp(x)", "gv = R.add(a, x)"))
    run("DataflowUseInplaceCalls", flow(MATRIX, "a = R.exp(x)", "b = R.add(a, a)", "gv = R.tanh(b)"))
    run(
        "RewriteDataflowReshape",
        relax.transform.LegalizeOps()(flow(MATRIX, "a = R.exp(x)", "gv = R.reshape(a, (16,))")),
    )


def test_order_and_names():
    run(
        "TopologicalSort",
        flow(MATRIX, "a = R.exp(x)", "b = R.tanh(x)", "c = R.sqrt(R.abs(b))", "gv = R.add(a, c)"),
    )
    run("ConvertToDataflow", plain(MATRIX, "a = R.exp(x)", "b = R.tanh(a)", "gv = R.add(a, b)", "return gv"))
    run("DeadCodeElimination", flow(MATRIX, "a = R.exp(x)", "b = R.tanh(a)", "gv = R.add(x, x)"))


def test_sizes_as_values():
    run(
        "ComputePrimValue",
        plain(
            "x: R.Tensor(('n', 4), 'float32')",
            "n = T.int64()",
            "R.func_attr({'relax.force_pure': True})",
            "gv = R.strided_slice(x, axes=[0], begin=[0], end=[n // 2 + 1])",
            "return gv",
        ),
    )
