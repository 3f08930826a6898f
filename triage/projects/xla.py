"""XLA as a project; a script holds the module of StableHLO that jax makes of the model."""

from collections.abc import Mapping
from typing import Any

from oracles.verdict import Config, Phase, Run
from oracles.worker.xla.module import flags_of
from triage.projects import ClaimedRun, Installing, Printed, Project, Runner, ShortScript, Words

IMPORTS = ("import jax", "from jaxlib import xla_client")

COMPILE = """\
    device = jax.local_devices(backend="cpu")[0]
    options = xla_client.CompileOptions()
    options.env_option_overrides = list(flags.items())
    code = device.client.compile_and_load(MODULE, [device], options)
    given = [jax.device_put(each, device) for each in {{ given }}]
    results = code.execute_sharded(given).disassemble_into_single_device_arrays()
"""
"""What `jax.jit(…).lower(…).compile(flags)` does with the module."""

PART = (
    '''\
CONFIGS = {{ configs | repr }}  # XLA's options, such as XLA_FLAGS has them
jax.config.update("jax_enable_x64", True)


def package_version():
    return metadata.version("jaxlib")


def run(config, path):
    """In a process of its own: compile the module and run it once, save the outputs."""
{% include "limit_memory.py.j2" %}
    try:
        results = compile_and_run(CONFIGS[config])
        save_outputs(path, [(f"output {place}", *named(each)) for place, each in enumerate(results)])
{% set full = "RESOURCE_EXHAUSTED" %}
{% include "failed.py.j2" %}


def compile_and_run(flags):
'''
    + COMPILE.replace("{{ given }}", "build_inputs()")
    + '''\
    return [np.asarray(each[0]) for each in results]


def named(value):
    """The element type and the array; types that numpy lacks as bit patterns."""
    name = value.dtype.name
    return name, value if value.dtype.isbuiltin == 1 else value.view(f"u{value.dtype.itemsize}")
'''
)
"""Compiles the module that stands above it, and runs it."""

RUN = (
    """\
jax.config.update("jax_enable_x64", True)
{% include "listed_inputs.py.j2" %}

def run(flags):
"""
    + COMPILE.replace("{{ given }}", "inputs")
    + """\
    return [np.asarray(each[0]) for each in results]
"""
)

SHORT = ShortScript(
    imports="import jax\nimport numpy as np\nfrom jaxlib import xla_client\n",
    run=RUN,
    call=lambda settings, label: f"run({settings['configs'][label]!r})",
    holds=True,
)
"""Compiles the module and runs it."""


def _settings(shown: ClaimedRun) -> Mapping[str, Any]:
    """The options of each configuration."""
    return {"configs": {label: flags_of(dict(config.settings)) for label, config in shown.own.items()}}


def _labels(run: Run, may_be_reader: bool) -> tuple[str, ...]:
    """The labels of a bug on the CPU: one where it does not compile, another where it does not run."""
    ends = {Phase.OPTIMISE: "err:Build", Phase.EXECUTE: "err: Runtime"}
    return ("bug", "CPU", *(ends[run.phase],)) if not run.is_ok and run.phase in ends else ("bug", "CPU")


def _words(config: Config) -> str:
    return f"with --xla_backend_optimization_level={config.get('level')}"


PROJECT = Project(
    "xla",
    package="jaxlib",
    companions=("jax",),
    backends=("xla",),
    beside=("numpy",),
    template="issue_xla.md.j2",
    issues="https://github.com/openxla/xla/issues",
    labels=_labels,
    runners=(
        Runner(
            ("jax", "jaxlib"),
            "jaxlib",
            PART,
            _settings,
            imports=IMPORTS,
            printed=Printed(frozenset({"np", "inf", "nan", "MODULE"}), frozenset()),
            slow=5.0,
            short=SHORT,
        ),
    ),
    varied=("xla",),
    words=Words(_words, kind="", optimising=lambda config: "while it compiles the module"),
    installing=Installing(needs=("onnx", "jax")),  # of the release that the library fits
)
