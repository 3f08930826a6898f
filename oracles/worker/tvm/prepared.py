"""Passes that need more of a module than its operators: each function prepares it first, then runs the pass.

They take the module and TVM itself, and keep what `main` takes and gives. A report's script holds their code.
"""

from __future__ import annotations

from typing import Any


def lift_transform_params(module: Any, tvm: Any, inputs: int) -> Any:
    """Take all but the first `inputs` parameters of `main` for weights, lift what is computed of them alone.

    What the pass makes stands in two functions; a new `main` calls one after the other. A result of weights
    alone would be lifted too, and is missed then: such a module stays as it is.
    """
    relax, module = tvm.relax, module.clone()
    old = module["main"]
    names = [var.name_hint for var in module.functions]
    known = set(old.params[:inputs])
    for binding in (binding for block in old.body.blocks for binding in block.bindings):
        if known.intersection(relax.analysis.free_vars(binding.value)):
            known.add(binding.var)
    is_apart = not known.issuperset(relax.analysis.free_vars(old.body.body))
    if len(old.params) <= inputs or "main_transform_params" in names or is_apart:
        return module
    module.update_func(module.get_global_var("main"), old.with_attr("num_input", inputs))
    module = relax.transform.LiftTransformParams()(module).clone()
    lifted = module["main"].without_attr("num_input").with_attr("global_symbol", "main_lifted")
    del module[module.get_global_var("main")]
    transform = module.get_global_var("main_transform_params")
    params = list(relax.utils.copy_with_new_vars(old).params)
    builder = relax.BlockBuilder(module)
    called = builder.add_func(lifted, "main_lifted")
    with builder.function("main", params, dict(old.attrs) if old.attrs else None):
        weights = builder.emit(relax.Call(transform, [relax.Tuple(params[inputs:])]))
        count = len(module["main_transform_params"].ret_ty.fields)
        items = [builder.emit(relax.TupleGetItem(weights, place)) for place in range(count)]
        builder.emit_func_output(builder.emit(relax.Call(called, [*params[:inputs], *items])))
    return builder.get()


def take_gradient(module: Any, tvm: Any) -> Any:
    """Put the sum of the result of `main` and the gradient of that beside it, where its form has one.

    That is one dataflow block and one result of floats, known at compilation.
    """
    relax, main = tvm.relax, module["main"]
    blocks, result = main.body.blocks, main.body.body
    is_float = hasattr(result.ty, "dtype") and str(result.ty.dtype).startswith("float")
    given = [var for var in main.params if str(getattr(var.ty, "dtype", "")).startswith("float")]
    is_one = len(blocks) == 1 and isinstance(blocks[0], relax.DataflowBlock)
    if not (
        is_one
        and is_float
        and given
        and all(isinstance(each, relax.VarBinding) for each in blocks[0].bindings)
    ):
        return module
    predicted = relax.Var("predicted", result.ty)
    builder = relax.BlockBuilder()
    with builder.function("loss", [predicted]):
        with builder.dataflow():
            total = builder.emit_output(relax.op.sum(predicted))
        builder.emit_func_output(total)
    append = relax.training.AppendLoss("main", builder.get()["loss"], new_func_name="main_loss")
    module = append(module)
    places = [list(main.params).index(var) for var in given]
    wanted = [module["main_loss"].params[place] for place in places]
    return relax.transform.Gradient("main_loss", wanted)(module)


def update_vdevice(module: Any, tvm: Any) -> Any:
    """Hint that the parameters of `main` lie on a device, realise that, and give it another target."""
    relax, module = tvm.relax, module.clone()
    device = relax.VDevice("llvm", 0, "global")
    module.update_global_info("vdevice", [device])
    main = module["main"]
    params = [relax.Var(f"{var.name}_given", var.ty) for var in main.params]
    pairs = zip(main.params, params)  # noqa: B905 (Python 3.8)
    hints = [
        relax.VarBinding(
            var, relax.op.hint_on_device(given, tvm.cpu()) if isinstance(var.ty, relax.TensorType) else given
        )
        for var, given in pairs
    ]
    body = relax.SeqExpr([relax.BindingBlock(hints), *main.body.blocks], main.body.body)
    hinted = relax.Function(params, body, main.ret_ty, main.is_pure, main.attrs)
    module.update_func(module.get_global_var("main"), hinted)
    module = relax.transform.RealizeVDevice()(module)
    return relax.transform.UpdateVDevice(relax.VDevice("llvm", 0, "global"), 0)(module)


def fuse_by_pattern(module: Any, tvm: Any, operators: str) -> Any:
    """Make functions of operators that follow each other, such as `matmul+add`."""
    any_value, is_operator = tvm.relax.dpl.wildcard, tvm.relax.dpl.is_op
    pattern = any_value()
    for name in operators.split("+"):
        others = () if name in ("exp", "negative", "nn.relu", "permute_dims") else (any_value(),)
        pattern = is_operator(f"relax.{name}")(pattern, *others)
    return tvm.relax.transform.FuseOpsByPattern([(f"crux.{operators}", pattern)])(module)
