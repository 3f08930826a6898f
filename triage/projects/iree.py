"""IREE as a project."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from oracles.verdict import Config, Phase, Run
from triage.projects import ClaimedRun, Installing, Printed, Project, Runner, ShortScript, Words

COMPILE = """\
def compile_module(text, flags):
    from iree.compiler import api

    session = api.Session()
    session.set_flags(*flags)
    invocation = session.invocation()
    invocation.enable_console_diagnostics()
    source = api.Source.wrap_buffer(session, text.encode() + b"\\0")
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
"""What `iree-compile` does, in this process."""

IMPORT = """\
def import_model(model):
    from iree.compiler import ir
    from iree.compiler.extras import onnx_importer

    model.graph.name = "main"
    info = onnx_importer.ModelInfo(onnx.shape_inference.infer_shapes(model, data_prop=True))
    module = info.create_module(context=ir.Context()).operation
    onnx_importer.NodeImporter.define_function(info.main_graph, module).import_all()
    return str(module.get_asm())


"""
"""What `iree-import-onnx` does, in this process."""

CALL = """\
def call(code, given, dtypes):
    import iree.runtime as rt

    config = rt.Config("local-sync")
    module = rt.VmModule.copy_buffer(config.vm_instance, code)
    context = rt.VmContext(config.vm_instance, modules=[*config.default_vm_modules, module])
    taken, results = rt.VmVariantList(1), rt.VmVariantList(1)
    for name, value in given:
        taken.push_ref(to_view(rt, config.device, name, value))
    context.invoke(module.lookup_function("main"), taken, results)
    views = [results.get_as_object(place, rt.HalBufferView) for place in range(len(results))]
    return [(f"output {place}", *from_view(*each)) for place, each in enumerate(zip(views, dtypes))]


def to_view(rt, device, name, data):
    kind = {"f": "FLOAT", "i": "SINT", "u": "UINT", "b": "BOOL"}[data.dtype.kind]
    special = {"bfloat16": "BFLOAT_16", "float8_e4m3fn": "FLOAT_8_E4M3_FN", "float8_e5m2": "FLOAT_8_E5M2"}
    return device.allocator.allocate_buffer_copy(
        memory_type=rt.MemoryType.DEVICE_LOCAL,
        allowed_usage=rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING,
        device=device,
        buffer=np.ascontiguousarray(data).reshape(data.shape),
        element_type=getattr(rt.HalElementType, special.get(name, f"{kind}_{8 * data.dtype.itemsize}")),
    )


"""
"""Runs what was compiled on arrays, given with the names of their element types."""

PART = (
    '''\
CONFIGS = {{ configs | repr }}  # the flags of iree-compile


def package_version():
    return metadata.version("iree-base-compiler")


{% include "load_model.py.j2" %}


def run(config, path):
    """In a process of its own: import, compile and run the model once, save the outputs."""
{% include "limit_memory.py.j2" %}
    try:
        model = load_model()
        dtypes = [np.dtype(onnx.helper.tensor_dtype_to_np_dtype(each)) for each in result_types(model)]
{% if plain %}
        given = [(value.dtype.name, value) for value in build_inputs().values()]
{% else %}
        given = list(build_inputs().values())
{% endif %}
        code = compile_module(import_model(model), CONFIGS[config])
        save_outputs(path, call(code, given, dtypes))
{% set full = "RESOURCE_EXHAUSTED" %}
{% include "failed.py.j2" %}


def result_types(model):
    return [value.type.tensor_type.elem_type for value in model.graph.output]


'''
    + IMPORT
    + COMPILE
    + "\n\n"
    + CALL
    + '''\
def from_view(view, dtype):
    """The element type and the array: IREE's integers have no sign, the model says which they are."""
    size = int(np.prod(view.shape, dtype="int64")) * dtype.itemsize
    data = np.frombuffer(bytes(view.map()), dtype="uint8")[:size]
    bits = dtype if dtype.isbuiltin == 1 else np.dtype(f"u{dtype.itemsize}")
    return dtype.name, data.view(bits).reshape(tuple(view.shape))
'''
)
"""Imports a model, compiles and runs it."""

OF_MODULES = (
    '''\
CONFIGS = {{ configs | repr }}  # the flags of iree-compile
TYPES = {"i1": "bool", "bf16": "bfloat16", "f8E4M3FN": "float8_e4m3fn", "f8E5M2": "float8_e5m2"}
TYPES.update({f"{short}{bits}": f"{name}{bits}" for short, name in NAMES for bits in (8, 16, 32, 64)})


def package_version():
    return metadata.version("iree-base-compiler")


def run(config, path):
    """In a process of its own: compile the module and run it once, save the outputs."""
{% include "limit_memory.py.j2" %}
    try:
        taken, given_back = map(element_types, re.search(r"@main\\((.*?)\\) -> (.*) {", MODULE).groups())
        code = compile_module(MODULE, CONFIGS[config])
        save_outputs(path, call(code, list(zip(taken, build_inputs())), given_back))
{% set full = "RESOURCE_EXHAUSTED" %}
{% include "failed.py.j2" %}


def element_types(text):
    return [TYPES[each] for each in re.findall(r"tensor<(?:\\d+x)*(\\w+)>", text)]


'''.replace("NAMES", '(("i", "int"), ("ui", "uint"), ("f", "float"))')
    + COMPILE
    + "\n\n"
    + CALL
    + '''\
def from_view(view, name):
    """The element type and the array: IREE's integers have no sign, the module says which they are."""
    small = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
    dtype = np.dtype(small.get(name, name))
    size = int(np.prod(view.shape, dtype="int64")) * dtype.itemsize
    return name, np.frombuffer(bytes(view.map()), dtype="uint8")[:size].view(dtype).reshape(tuple(view.shape))
'''
)
"""Compiles the module that stands above it, and runs it."""


RUN = """\
def run(flags):
    code = iree.compiler.compile_str({{ text }}, extra_args=flags)
    results = rt.load_vm_flatbuffer(code, driver="local-sync").main({{ given }})
    results = results if isinstance(results, tuple) else [results]
"""
"""What `iree-compile` and `iree-run-module` do."""

DIES = r"Error code: -\d"
"""What it says where `iree-compile`, which is a process of its own, dies of a signal."""

SHORT = ShortScript(
    imports="""\
import iree.compiler
import iree.runtime as rt
import numpy as np
from iree.compiler import ir
from iree.compiler.extras import onnx_importer
""",
    program="{{ code }}",
    run="""\
model = onnx.shape_inference.infer_shapes({{ model }}, data_prop=True)
model.graph.name = "main"
dtypes = [helper.tensor_dtype_to_np_dtype(each.type.tensor_type.elem_type) for each in model.graph.output]
inputs = {{ inputs }}

info = onnx_importer.ModelInfo(model)
imported = info.create_module(context=ir.Context()).operation
onnx_importer.NodeImporter.define_function(info.main_graph, imported).import_all()

"""
    + RUN.replace("{{ text }}", "str(imported)").replace("{{ given }}", "*inputs.values()")
    + """\
    return [np.asarray(each).view(dtype) for each, dtype in zip(results, dtypes)]  # IREE's have no sign
""",
    call=lambda settings, label: f"run({settings['configs'][label]!r})",
    holds=True,
    dies=DIES,
)
"""Imports the model, compiles and runs it."""

SHORT_OF_MODULES = ShortScript(
    imports="""\
import iree.compiler
import iree.runtime as rt
import numpy as np
""",
    run="""\
{% include "listed_inputs.py.j2" %}

"""
    + RUN.replace("{{ text }}", "MODULE").replace("{{ given }}", "*inputs")
    + """\
    return [np.asarray(each) for each in results]
""",
    call=SHORT.call,
    holds=True,
    dies=DIES,
)
"""Compiles the module that stands above it, and runs it."""


def _flags(config: Config, dialect: str) -> list[str]:
    return [
        "--iree-hal-target-device=local",
        f"--iree-hal-local-target-device-backends={config.get('code')}",
        f"--iree-input-type={dialect}",
        "--iree-input-demote-f64-to-f32=false",
        f"--iree-opt-level={config.get('level')}",
        "--iree-llvmcpu-target-cpu=generic",
    ]


def _settings(shown: ClaimedRun, dialect: str = "onnx") -> Mapping[str, Any]:
    """The flags of each configuration."""
    return {"configs": {label: _flags(config, dialect) for label, config in shown.own.items()}}


def _labels(run: Run, may_be_reader: bool) -> tuple[str, ...]:
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
            ("iree-base-compiler", "iree-base-runtime", "onnx"),
            "iree.compiler",
            PART,
            _settings,
            imports=("import onnx",),
            formats=("onnx",),
            slow=5.0,
            short=SHORT,
        ),
        Runner(
            ("iree-base-compiler", "iree-base-runtime"),
            "iree.compiler",
            OF_MODULES,
            partial(_settings, dialect="stablehlo"),
            printed=Printed(frozenset({"np", "inf", "nan", "MODULE"}), frozenset()),
            formats=("stablehlo",),
            slow=5.0,
            short=SHORT_OF_MODULES,
        ),
    ),
    words=Words(_words, kind="", optimising=lambda config: "while it compiles the model"),
    installing=Installing(needs=("onnx",)),
)
