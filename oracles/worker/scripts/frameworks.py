"""What is wrapped of each framework, by the module after whose import that happens.

A keeper saves the program of a call, and gives where it lies and for which target it is.
"""

import os
import zipfile
from typing import Any, Callable  # noqa: UP035 (Python 3.8)

Facts = Any
"""What is noted of a call besides its name, as a dictionary; None where nothing was kept."""


# Comparisons


def comparing(prefix: str, *names: str) -> Callable[[Any, Any], None]:
    """A hook that wraps comparisons of a module."""

    def hook(recorder: Any, module: Any) -> None:
        for name in names:
            recorder.wrap_comparison(module, name, f"{prefix}.{name}")

    return hook


def unittests(recorder: Any, module: Any) -> None:
    """Tests that unittest sees fail, and goes on."""
    for name in ("addError", "addFailure"):
        real = getattr(module.TestResult, name)

        def added(self: Any, test: Any, error: Any, real: Any = real) -> Any:
            recorder.raised(*error)
            return real(self, test, error)

        setattr(module.TestResult, name, added)


def write_arrays(path: str, arrays: "dict[str, Any]") -> None:
    """Write arrays as an npz, whatever they are called."""
    import numpy as np

    with zipfile.ZipFile(path, "w") as file:
        for name, value in arrays.items():
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(value), allow_pickle=False)


# ONNX Runtime


def onnxruntime(recorder: Any, module: Any) -> None:
    """Sessions, and what they are fed."""
    recorder.wrap(module.InferenceSession, "__init__", session, "InferenceSession")
    recorder.wrap(module.Session, "run", fed, "InferenceSession.run")
    recorder.wrap(module.Session, "run_with_ort_values", fed, "InferenceSession.run")


def session(recorder: Any, self: Any, model: Any, options: Any = None, *rest: Any, **named: Any) -> Facts:
    """Keep a session's model, its weights within it."""
    place = recorder.place()
    if not place:
        return None
    options = named.get("sess_options", options)
    threads = int(getattr(options, "intra_op_num_threads", 0) or 0)
    self.crux_kept = os.path.join(place, "model.onnx"), threads
    with open(self.crux_kept[0], "wb") as file:
        file.write(model_bytes(model))
    return {"folder": os.path.basename(place), "target": "ort", "threads": threads}


def model_bytes(model: Any) -> bytes:
    """The bytes of a model that is a path or bytes; weights that lie in files of their own are put in."""
    if isinstance(model, (bytes, bytearray)) or hasattr(model, "getvalue"):
        return bytes(model.getvalue() if hasattr(model, "getvalue") else model)
    with open(model, "rb") as file:
        content = file.read()
    try:
        import onnx

        loaded = onnx.load_model_from_string(content)
        if any(onnx.external_data_helper.uses_external_data(each) for each in loaded.graph.initializer):
            content = onnx.load(os.fspath(model)).SerializeToString()
    except Exception:  # what is no model is the framework's to judge
        return content
    return content


def fed(recorder: Any, self: Any, names: Any, feeds: Any, *rest: Any, **named: Any) -> Facts:
    """Keep what a session is fed, with its model again."""
    feeds = feeds if isinstance(feeds, dict) else names
    kept, threads = getattr(self, "crux_kept", ("", 0))
    place = recorder.place() if kept else ""
    if not place:
        return None
    os.link(kept, os.path.join(place, "model.onnx"))
    arrays = {name: value.numpy() if hasattr(value, "numpy") else value for name, value in feeds.items()}
    write_arrays(os.path.join(place, "inputs.npz"), arrays)
    return {"folder": os.path.basename(place), "target": "ort", "threads": threads}


# torch


def torch(recorder: Any, module: Any) -> None:
    """What torch.compile gives to a backend, and comparisons."""
    comparing("torch", "allclose", "equal")(recorder, module)
    for name in ("_TorchCompileInductorWrapper", "_TorchCompileAOTInductorWrapper", "_TorchCompileWrapper"):
        if hasattr(module, name):
            recorder.wrap(getattr(module, name), "__call__", compiled, "torch.compile")


def compiled(recorder: Any, self: Any, graph: Any, values: Any, **named: Any) -> Facts:
    """Keep a graph of dynamo's with what it is called with; one with transforms by what it dispatches."""
    from oracles.worker.torch.capture import document, traced
    from oracles.worker.torch.data import NotData

    backend = getattr(self, "compiler_name", "inductor")
    target = f"inductor@backend={backend}" if str(backend).startswith("aot_eager") else "inductor"
    given = list(values)
    try:
        found = document(graph, given, given)
    except NotData:
        found = traced(graph, given)
    return kept_document(recorder, found, target)


def kept_document(recorder: Any, document: Any, target: str) -> Facts:
    """Write a program of torch as data."""
    import json

    place = recorder.place()
    if not place:
        return None
    with open(os.path.join(place, "program.json"), "w", encoding="utf-8") as file:
        json.dump(document, file)
    return {"folder": os.path.basename(place), "target": target}


def torch_export(recorder: Any, module: Any) -> None:
    """Programs that torch.export traces."""
    recorder.wrap(module, "export", exported("torch-onnx@exporter=dynamo"), "torch.export.export")


def torch_onnx(recorder: Any, module: Any) -> None:
    """Programs that are exported to ONNX."""
    recorder.wrap(module, "export", exported("torch-onnx"), "torch.onnx.export")


def exported(target: str) -> Callable[..., Facts]:
    """A keeper of a module and its arguments; what is drawn at random afterwards stays the same."""

    def keep(recorder: Any, model: Any, args: Any = (), *rest: Any, **named: Any) -> Facts:
        import torch

        from oracles.worker.torch.capture import Given, ways

        args = args if isinstance(args, (tuple, list)) else (args,)
        given = Given(model, args, named.get("kwargs") or (rest[:1] if target == "torch-onnx@" else {}) or {})
        first: Exception = ValueError("no way to capture it")
        with torch.random.fork_rng(devices=[]):
            for way in ways(given):
                try:
                    return kept_document(recorder, way(given), target)
                except Exception as error:  # whatever one way cannot do, another may
                    first = error
        raise first

    return keep


# TVM


def tvm_onnx(recorder: Any, module: Any) -> None:
    """Models of ONNX that Relax imports."""

    def imported(recorder: Any, model: Any, *rest: Any, **named: Any) -> Facts:
        place = recorder.place()
        if not place:
            return None
        with open(os.path.join(place, "model.onnx"), "wb") as file:
            file.write(model.SerializeToString())
        return {"folder": os.path.basename(place), "target": "tvm"}

    recorder.wrap(module, "from_onnx", imported, "from_onnx")


def tvm(recorder: Any, module: Any) -> None:
    """Modules that are compiled, and what a machine is called with."""
    for name in ("compile", "build"):
        recorder.wrap(module, name, built, f"tvm.{name}")


def relax(recorder: Any, module: Any) -> None:
    """Modules that Relax builds, or tirx."""
    recorder.wrap(module, "build", built, f"{module.__name__}.build")


def built(recorder: Any, module: Any, *rest: Any, **named: Any) -> Facts:
    """Keep a module as TVM's JSON."""
    import tvm

    place = recorder.place()
    if not place:
        return None
    if not isinstance(module, tvm.ir.IRModule):
        module = tvm.IRModule({"main": module})
    with open(os.path.join(place, "module.json"), "w", encoding="utf-8") as file:
        file.write(tvm.ir.save_json(module))
    return {"folder": os.path.basename(place), "target": "tvm"}


def passes(recorder: Any, module: Any) -> None:
    """Passes that a script applies by hand."""

    def applied(recorder: Any, self: Any, module: Any, *rest: Any) -> Facts:
        facts = built(recorder, module)
        return facts and {**facts, "passes": str(self.info.name)}

    recorder.wrap(module.Pass, "__call__", applied, "a pass")


def machines(recorder: Any, module: Any) -> None:
    """What the functions of a virtual machine are called with."""
    real = module.VirtualMachine.__getitem__

    def item(self: Any, key: str) -> Any:
        return called_with(recorder, real(self, key))

    module.VirtualMachine.__getitem__ = item


def executables(recorder: Any, module: Any) -> None:
    """What compiled functions are called with."""
    for name in ("__getitem__", "__call__"):
        real = getattr(module.Executable, name, None)
        if real is not None:
            setattr(module.Executable, name, executed(recorder, name, real))


def executed(recorder: Any, name: str, real: Any) -> Any:
    """A method of an executable that notes its arguments, or those of the function that it gives."""

    def call(self: Any, *args: Any, **named: Any) -> Any:
        if name == "__getitem__":
            return called_with(recorder, real(self, *args))
        return called_with(recorder, lambda *given: real(self, *given))(*args)

    return call


def called_with(recorder: Any, function: Any) -> Any:
    """A function that notes its arguments as arrays, in order."""

    def call(*args: Any, **named: Any) -> Any:
        leaves = [leaf for each in args for leaf in (each if isinstance(each, (list, tuple)) else [each])]
        place = recorder.place()
        if place:
            arrays = {f"{at}": each.numpy() for at, each in enumerate(leaves) if hasattr(each, "numpy")}
            write_arrays(os.path.join(place, "arguments.npz"), arrays)
            recorder.note(event="fed", folder=os.path.basename(place))
        try:
            return function(*args, **named)
        except BaseException as error:
            recorder.note(event="failed", call="run", type=type(error).__name__, text=str(error)[:1000])
            raise

    return call


HOOKS: "dict[str, Callable[[Any, Any], None]]" = {
    "numpy": comparing("np", "allclose", "array_equal"),
    "numpy.testing": comparing(
        "np.testing",
        "assert_allclose",
        "assert_array_equal",
        "assert_equal",
        "assert_almost_equal",
        "assert_array_almost_equal",
    ),
    "unittest.result": unittests,
    "onnxruntime.capi.onnxruntime_inference_collection": onnxruntime,
    "torch": torch,
    "torch.testing": comparing("torch.testing", "assert_close", "assert_allclose"),
    "torch.export": torch_export,
    "torch.onnx": torch_onnx,
    "tvm": tvm,
    "tvm.relax": relax,
    "tvm.tirx": relax,
    "tvm.ir.transform": passes,
    "tvm.relax.frontend.onnx": tvm_onnx,
    "tvm.runtime.vm": machines,
    "tvm.runtime.executable": executables,
}
