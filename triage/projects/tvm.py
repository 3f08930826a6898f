"""TVM as a project: models of ONNX through its importer, and Relax modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oracles.backends.tvm import code_of, code_of_least
from oracles.run import Config, Phase
from triage.projects import Installing, Printed, Project, Runner, ToShow, Words

ONNX_PART = '''\
CONFIGS = {{ configs | repr }}
{% if sequence %}


def passes(tvm):
    """What runs before the pipeline."""
    return [
{% for code in sequence %}
        {{ code }},
{% endfor %}
    ]
{% endif %}


def package_version():
    try:
        return metadata.version("apache-tvm")
    except metadata.PackageNotFoundError:
        import tvm  # a build of one's own

        return tvm.__version__


def load_model():
    built = build_model()
{% if mode == "code" %}
    return built
{% elif mode == "bytes" %}
    return onnx.load_model_from_string(built)
{% else %}
    return onnx.load(built)
{% endif %}


def run(config, path):
    """In a process of its own: import, compile and run the model once, save the outputs."""
{% if seen == "out-of-memory" %}
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
{% endif %}
    try:
        save_outputs(path, compile_and_run())
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 4 if re.search("MemoryError|bad_alloc|allocate memory", repr(error)) else 3
    return 0


def compile_and_run():
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx

    model = load_model()
    module = from_onnx(model, keep_params_in_input=False)
{% if device == "cuda" %}
    host = {"kind": "llvm", "opt-level": {{ level }}}
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_80"}, host=host)
{% else %}
    target = tvm.target.Target({"kind": "llvm", "opt-level": {{ level }}})
{% endif %}
    with target:
{% if sequence %}
        for each in passes(tvm):
            module = each(module)
{% endif %}
{% if pipeline == "zero" %}
        module = relax.get_pipeline("zero")(module)
{% endif %}
{% if pipeline == "target" or device == "cuda" %}
        module = relax.get_default_pipeline(target)(module)
{% else %}
        module = relax.get_pipeline("default")(module)
{% endif %}
    executable = relax.build(module, target, relax_pipeline=None, exec_mode={{ executor | repr }})
{% if only_compile %}
    return []
{% else %}
    device = tvm.{{ "cuda" if device == "cuda" else "cpu" }}()
    machine = relax.VirtualMachine(executable, device)
    found = machine["main"](*[to_tvm(tvm, device, given) for given in build_inputs().values()])
    names = [each.name for each in model.graph.output]
    values = [found] if len(names) == 1 else list(found)
    return [(name, *from_tvm(each)) for name, each in zip(names, values)]


def to_tvm(tvm, device, given):
{% if plain %}
    return tvm.runtime.tensor(given, device)
{% else %}
    import ml_dtypes

    element, data = given
    if ELEMENTS.index(element) >= ELEMENTS.index("bfloat16"):
        data = data.view(getattr(ml_dtypes, element))
    return tvm.runtime.tensor(data, device)
{% endif %}


def from_tvm(value):
    """The element type and the array (bit patterns where numpy lacks the type); shapes and numbers are int64."""
    data = value.numpy() if hasattr(value, "numpy") else np.array(value, dtype="int64")
    element = data.dtype.name
    if ELEMENTS.index(element) >= ELEMENTS.index("bfloat16"):
        data = data.view("uint16" if element == "bfloat16" else "uint8")
    return element, data
{% endif %}
'''
"""Imports a model, compiles and runs it."""

RELAX_PART = '''\
CONFIGS = {{ configs | repr }}  # the pipeline, LLVM's level, the executor{{ ", whether `passes` run first" if sequence }}
{% if sequence %}


def passes():
    """What runs before the pipeline."""
    return [
{% for code in sequence %}
        {{ code }},
{% endfor %}
    ]
{% endif %}


def package_version():
    return tvm.__version__


def run(config, path):
    """In a process of its own: compile and run the module once, save the outputs."""
{% if seen == "out-of-memory" %}
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
{% endif %}
    try:
        save_outputs(path, compile_and_run(*CONFIGS[config]))
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 4 if re.search("MemoryError|bad_alloc|allocate memory", repr(error)) else 3
    return 0


def compile_and_run(pipeline, level, executor{{ ", is_sequenced" if sequence }}):
    target = tvm.target.Target({"kind": "llvm", "opt-level": level})
    module = Module
    with target:
{% if sequence %}
        for each in passes() if is_sequenced else ():
            module = each(module)
{% endif %}
        if pipeline == "zero":
            module = relax.get_pipeline("zero")(module)
        last = relax.get_default_pipeline(target) if pipeline == "target" else relax.get_pipeline("default")
        module = last(module)
    executable = relax.build(module, target, relax_pipeline=None, exec_mode=executor)
{% if only_compile %}
    return []
{% else %}
    machine = relax.VirtualMachine(executable, tvm.cpu())
    found = machine[{{ source.entry | repr }}](*map(to_tvm, build_inputs()))
    values = [found] if hasattr(found, "numpy") else list(found)
    return [(f"output {place}", *from_tvm(each)) for place, each in enumerate(values)]


def to_tvm(value):
    return tvm.runtime.tensor(value) if isinstance(value, np.ndarray) else value


def from_tvm(value):
    """The element type and the array (bit patterns where numpy lacks the type); shapes and numbers are int64."""
    data = value.numpy() if hasattr(value, "numpy") else np.array(value, dtype="int64")
    element = data.dtype.name
    if data.dtype.isbuiltin != 1:
        data = data.view("uint16" if element == "bfloat16" else "uint8")
    return element, data
{% endif %}
'''
"""Compiles and runs the module that stands above it."""

ONNX_SHORT = """\
import numpy as np
{% if baseline %}
import onnxruntime
{% endif %}
import tvm
from onnx import TensorProto, helper{{ ", numpy_helper" if "numpy_helper" in code }}
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

{{ code }}
inputs = {{ inputs }}
{% if baseline %}

session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
print("onnxruntime:", *session.run(None, inputs), flush=True)
{% endif %}

module = from_onnx(model, keep_params_in_input=False)
{% if device == "cuda" %}
host = {"kind": "llvm", "opt-level": {{ level }}}
target = tvm.target.Target({"kind": "cuda", "arch": "sm_80"}, host=host)
{% else %}
target = tvm.target.Target({"kind": "llvm", "opt-level": {{ level }}})
{% endif %}
with target:
{% for code in sequence %}
    module = {{ code }}(module)
{% endfor %}
{% if pipeline == "zero" %}
    module = relax.get_pipeline("zero")(module)
{% endif %}
    module = relax.{{ "get_default_pipeline(target)" if pipeline == "target" or device == "cuda" else "get_pipeline(\'default\')" }}(module)
executable = relax.build(module, target, relax_pipeline=None, exec_mode={{ executor | repr }})
{% if only_compile %}
print("{{ configs | last }}: compiled")
{% else %}
machine = relax.VirtualMachine(executable, tvm.{{ "cuda" if device == "cuda" else "cpu" }}())
found = machine["main"](*[tvm.runtime.tensor(each) for each in inputs.values()])
print("{{ configs | last }}:", *([found] if hasattr(found, "numpy") else found), flush=True)
{% endif %}
"""
"""Imports the model, compiles and runs it, beside onnxruntime where values are compared."""

RELAX_SHORT = """\
import numpy as np
import tvm
from tvm import relax

{{ source.module }}

inputs = [
{% for line in source.inputs.splitlines() %}
    {{ line }}
{% endfor %}
]

for name, (pipeline, level, executor{{ ", is_sequenced" if sequence }}) in {{ configs | repr }}.items():
    module, target = Module, tvm.target.Target({"kind": "llvm", "opt-level": level})
    with target:
{% for code in sequence %}
        module = {{ code }}(module) if is_sequenced else module
{% endfor %}
        if pipeline == "zero":
            module = relax.get_pipeline("zero")(module)
        last = relax.get_default_pipeline(target) if pipeline == "target" else relax.get_pipeline("default")
        module = last(module)
    executable = relax.build(module, target, relax_pipeline=None, exec_mode=executor)
{% if only_compile %}
    print(f"{name}: compiled", flush=True)
{% else %}
    machine = relax.VirtualMachine(executable, tvm.cpu())
    given = [tvm.runtime.tensor(each) if isinstance(each, np.ndarray) else each for each in inputs]
    print(f"{name}:", machine[{{ source.entry | repr }}](*given), flush=True)
{% endif %}
"""
"""Compiles the module that stands above it in each way and prints what it gives."""

LOOPS_PART = '''\
CONFIGS = {{ configs | repr }}  # the pipeline, LLVM's level{{ ", whether `passes` run first" if sequence }}
{% if sequence %}


def passes():
    """What runs before the pipeline."""
    return [
{% for code in sequence %}
        {{ code }},
{% endfor %}
    ]
{% endif %}
{% if lowers %}


def least():
    """What the code generator cannot do without, and nothing that optimises."""
    lowering = [
{% for code in lowers %}
        {{ code }},
{% endfor %}
    ]
    _, *finish = tvm.tirx.get_tir_pipeline("default")
    return (tvm.ir.transform.Sequential(lowering), *finish)


tvm.tirx.register_tir_pipeline("least", least)
{% endif %}


def package_version():
    return tvm.__version__


def run(config, path):
    """In a process of its own: compile and run the module once, save what its buffers hold."""
{% if seen == "out-of-memory" %}
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
{% endif %}
    try:
        save_outputs(path, compile_and_run(*CONFIGS[config]))
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 4 if re.search("MemoryError|bad_alloc|allocate memory", repr(error)) else 3
    return 0


def compile_and_run(pipeline, level{{ ", is_sequenced" if sequence }}):
    target = tvm.target.Target({"kind": "llvm", "opt-level": level})
    module = Module
    with target:
{% if sequence %}
        for each in passes() if is_sequenced else ():
            module = each(module)
{% endif %}
        built = tvm.tirx.build(module, target=target, pipeline=pipeline)
{% if only_compile %}
    return []
{% else %}
    given = [tvm.runtime.tensor(each) if isinstance(each, np.ndarray) else each for each in build_inputs()]
    built[{{ source.entry | repr }}](*given)
    return [(f"buffer {place}", *from_tvm(each)) for place, each in enumerate(given) if hasattr(each, "numpy")]


def from_tvm(value):
    """The element type and the array (bit patterns where numpy lacks the type)."""
    data = value.numpy()
    element = data.dtype.name
    if data.dtype.isbuiltin != 1:
        data = data.view("uint16" if element == "bfloat16" else "uint8")
    return element, data
{% endif %}
'''
"""Compiles and runs the module of PrimFuncs that stands above it."""

LOOPS_SHORT = """\
import numpy as np
import tvm

{{ source.module }}

inputs = [
{% for line in source.inputs.splitlines() %}
    {{ line }}
{% endfor %}
]
{% if lowers %}


def least():
    lowering = [
{% for code in lowers %}
        {{ code }},
{% endfor %}
    ]
    return (tvm.ir.transform.Sequential(lowering), *tvm.tirx.get_tir_pipeline("default")[1:])


tvm.tirx.register_tir_pipeline("least", least)
{% endif %}

for name, (pipeline, level{{ ", is_sequenced" if sequence }}) in {{ configs | repr }}.items():
    module, target = Module, tvm.target.Target({"kind": "llvm", "opt-level": level})
    with target:
{% for code in sequence %}
        module = {{ code }}(module) if is_sequenced else module
{% endfor %}
        built = tvm.tirx.build(module, target=target, pipeline=pipeline)
{% if only_compile %}
    print(f"{name}: compiled", flush=True)
{% else %}
    given = [tvm.runtime.tensor(each) if isinstance(each, np.ndarray) else each for each in inputs]
    built[{{ source.entry | repr }}](*given)
    print(f"{name}:", *given, flush=True)
{% endif %}
"""
"""Compiles the module that stands above it in each way and prints what its buffers hold."""

_NAMES = "R T I Module relax tvm np base64 TypeVar range int float bool"
SCRIPT = Printed(frozenset(_NAMES.split()), frozenset(("typing", "tvm")), frozenset(("ml_dtypes",)))
"""What printed TVMScript may use."""


def _onnx_settings(shown: ToShow) -> Mapping[str, Any]:
    config = shown.failing
    return {name: config.get(name) for name in ("pipeline", "executor")} | {
        "configs": list(shown.own),
        "sequence": code_of(shown.passes_of(config)),
        "device": config.get("device") or "cpu",
        "only_compile": config.get("run") == "off",
        "level": config.get("opt-level"),
    }


def _relax_settings(shown: ToShow) -> Mapping[str, Any]:
    """Each configuration as (pipeline, LLVM's level, executor), and whether the case's passes run first."""
    names = ("pipeline", "opt-level", "executor")
    sequenced = {label for label, config in shown.own.items() if shown.passes_of(config)}
    configs = {
        label: (*(config.get(name) for name in names), *((label in sequenced,) if sequenced else ()))
        for label, config in shown.own.items()
    }
    return {
        "configs": configs,
        "sequence": code_of(shown.passes) if sequenced else (),
        "only_compile": shown.failing.get("run") == "off",
    }


def _loops_settings(shown: ToShow) -> Mapping[str, Any]:
    """Each configuration as (pipeline, LLVM's level), and whether the case's passes run first."""
    sequenced = {label for label, config in shown.own.items() if shown.passes_of(config)}
    configs = {
        label: (
            *(config.get(name) for name in ("pipeline", "opt-level")),
            *(((label in sequenced),) if sequenced else ()),
        )
        for label, config in shown.own.items()
    }
    lowers = any(config.get("pipeline") == "least" for config in shown.own.values())
    return {
        "configs": configs,
        "sequence": code_of(shown.passes) if sequenced else (),
        "lowers": code_of_least() if lowers else (),
        "only_compile": shown.failing.get("run") == "off",
    }


def _words(config: Config) -> str:
    pipeline = config.get("pipeline")
    if not pipeline:
        return ""
    if not config.get("executor"):
        return f"with the `{pipeline}` pipeline of PrimFuncs, LLVM `-O{config.get('opt-level')}`"
    executor = "compiled VM" if config.get("executor") == "compiled" else "VM"
    how = f"the `{pipeline}` pipeline, LLVM `-O{config.get('opt-level')}`, {executor}"
    return f"with {how}{', for CUDA' if config.get('device') == 'cuda' else ''}"


def _labels(phase: Phase, is_onnx: bool) -> tuple[str, ...]:
    """What TVM's own triage asks for: the frontend, and the part of the compiler that fails."""
    parts = {Phase.IMPORT: "frontend", Phase.OPTIMISE: "relax:transform", Phase.CODEGEN: "codegen:llvm"}
    return ("needs-triage", *(("frontend:onnx",) if is_onnx else ()), parts.get(phase, "relax"), "type:bug")


PROJECT = Project(
    "tvm",
    package="apache-tvm",
    backends=("tvm",),
    companions=("apache-tvm-ffi",),
    devices=("cpu", "cuda"),
    template="issue_tvm.md.j2",
    issues="https://github.com/apache/tvm/issues",
    labels=_labels,
    runners=(
        Runner(
            ("apache-tvm",),
            "tvm",
            RELAX_PART,
            _relax_settings,
            imports=("import tvm", "from tvm import relax"),
            printed=SCRIPT,
            formats=("relax",),
            slow=20.0,
            short=RELAX_SHORT,
        ),
        Runner(
            ("apache-tvm",),
            "tvm",
            LOOPS_PART,
            _loops_settings,
            imports=("import tvm",),
            printed=SCRIPT,
            formats=("tir",),
            slow=20.0,
            short=LOOPS_SHORT,
        ),
        Runner(
            ("apache-tvm", "onnx"),
            "tvm",
            ONNX_PART,
            _onnx_settings,
            imports=("import onnx",),
            formats=("onnx",),
            slow=20.0,
            short=ONNX_SHORT,
        ),
    ),
    varied=("tvm",),
    words=Words(_words),
    installing=Installing(
        needs=("onnx",),
        pinned={(0, 27): ("apache-tvm-ffi==0.1.14.post0",)},
        built_with=("apache-tvm-ffi",),
    ),
)
