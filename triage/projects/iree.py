"""IREE as a project."""

from collections.abc import Mapping
from typing import Any

from oracles.verdict import Config, Phase, Run
from triage.projects import ClaimedRun, Installing, Project, Runner, Words

COMPILE = """\
def compile_model(model, flags):
    import tempfile

    import onnx
    from iree.compiler import api, ir
    from iree.compiler.extras import onnx_importer

    model.graph.name = "main"
    info = onnx_importer.ModelInfo(onnx.shape_inference.infer_shapes(model, data_prop=True))
    module = info.create_module(context=ir.Context()).operation
    onnx_importer.NodeImporter.define_function(info.main_graph, module).import_all()
    session = api.Session()
    session.set_flags(*flags)
    invocation = session.invocation()
    invocation.enable_console_diagnostics()
    source = api.Source.wrap_buffer(session, str(module.get_asm()).encode() + b"\\0")
    if not (invocation.parse_source(source) and invocation.execute()):
        raise RuntimeError("it does not compile")
    with tempfile.NamedTemporaryFile(suffix=".vmfb") as file:
        output = api.Output.open_file(file.name)
        invocation.output_vm_bytecode(output)
        output.keep()
        output.close()
        with open(file.name, "rb") as code:
            return code.read()
"""
"""What `iree-import-onnx` and `iree-compile` do, in one process."""

PART = (
    '''\
CONFIGS = {{ configs | repr }}  # the flags of iree-compile


def package_version():
    return metadata.version("iree-base-compiler")


def run(config, path):
    """In a process of its own: import, compile and run the model once, save the outputs."""
{% include "limit_memory.py.j2" %}
    import onnx

    try:
        model = onnx.load_model_from_string(build_model())
        save_outputs(path, call(compile_model(model, CONFIGS[config]), model.graph.output))
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 4 if re.search("MemoryError|bad_alloc|RESOURCE_EXHAUSTED", repr(error)) else 3
    return 0


'''
    + COMPILE
    + '''

def call(code, declared):
    import iree.runtime as rt

    config = rt.Config("local-sync")
    module = rt.VmModule.copy_buffer(config.vm_instance, code)
    context = rt.VmContext(config.vm_instance, modules=[*config.default_vm_modules, module])
    given, results = rt.VmVariantList(1), rt.VmVariantList(1)
    for value in build_inputs().values():
        given.push_ref(to_view(rt, config.device, value))
    context.invoke(module.lookup_function("main"), given, results)
    views = [results.get_as_object(place, rt.HalBufferView) for place in range(len(results))]
    return [(f"output {place}", *from_view(*each)) for place, each in enumerate(zip(views, declared))]


def to_view(rt, device, value):
{% if plain %}
    name, data = value.dtype.name, value
{% else %}
    name, data = value
{% endif %}
    kind = {"f": "FLOAT", "i": "SINT", "u": "UINT", "b": "BOOL"}[data.dtype.kind]
    special = {"bfloat16": "BFLOAT_16", "float8_e4m3fn": "FLOAT_8_E4M3_FN", "float8_e5m2": "FLOAT_8_E5M2"}
    return device.allocator.allocate_buffer_copy(
        memory_type=rt.MemoryType.DEVICE_LOCAL,
        allowed_usage=rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING,
        device=device,
        buffer=np.ascontiguousarray(data).reshape(data.shape),
        element_type=getattr(rt.HalElementType, special.get(name, f"{kind}_{8 * data.dtype.itemsize}")),
    )


def from_view(view, declared):
    """The element type and the array: IREE's integers have no sign, the model says which they are."""
    import onnx

    dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(declared.type.tensor_type.elem_type))
    size = int(np.prod(view.shape, dtype="int64")) * dtype.itemsize
    data = np.frombuffer(bytes(view.map()), dtype="uint8")[:size]
    bits = dtype if dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")
    return dtype.name, data.view(bits).reshape(tuple(view.shape))
'''
)
"""Imports a model, compiles and runs it."""


def _flags(config: Config) -> list[str]:
    return [
        "--iree-hal-target-device=local",
        f"--iree-hal-local-target-device-backends={config.get('code')}",
        "--iree-input-type=onnx",
        "--iree-input-demote-f64-to-f32=false",
        f"--iree-opt-level={config.get('level')}",
        "--iree-llvmcpu-target-cpu=generic",
    ]


def _settings(shown: ClaimedRun) -> Mapping[str, Any]:
    """The flags of each configuration."""
    return {"configs": {label: _flags(config) for label, config in shown.own.items()}}


def _labels(run: Run, is_onnx: bool) -> tuple[str, ...]:
    """The labels of a bug: its form's own two, and the part that it is in."""
    part = "integrations/onnx" if run.phase is Phase.IMPORT else "codegen/llvm"
    return ("bug 🐞", "awaiting-triage", part)


def _words(config: Config) -> str:
    return f"compiled for {config.get('code')} with --iree-opt-level={config.get('level')}"


PROJECT = Project(
    "iree",
    package="iree-base-compiler",
    companions=("iree-base-runtime",),
    backends=("iree",),
    issues="https://github.com/iree-org/iree/issues",
    template="issue_iree.md.j2",
    labels=_labels,
    runners=(
        Runner(
            ("iree-base-compiler", "iree-base-runtime", "onnx"), "iree.compiler", PART, _settings, slow=5.0
        ),
    ),
    words=Words(_words, kind="", optimising=lambda config: "while it compiles the model"),
    installing=Installing(needs=("onnx",)),
)
