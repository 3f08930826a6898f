"""Parts of scripts that all programs of TVM share: the case's own passes, and one run in a process."""

from __future__ import annotations

from triage.projects import Printed

_PASSES = '''\
{% if sequence %}


def passes(ARGS):
    """What runs before the pipeline."""
    return [
{% for code in sequence %}
        {{ code }},
{% endfor %}
    ]
{% endif %}
'''

_RUN = '''\
def run(config, path):
    """In a process of its own: DOES."""
{% if seen == "out-of-memory" %}
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
{% endif %}
    try:
        save_outputs(path, compile_and_run(GIVEN))
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 4 if re.search("MemoryError|bad_alloc|allocate memory", repr(error)) else 3
    return 0
'''


def passes_part(parameters: str = "") -> str:
    """Return the function `passes`, of these parameters: what the case runs before the pipeline."""
    return _PASSES.replace("ARGS", parameters)


def run_part(does: str, given: str = "*CONFIGS[config]") -> str:
    """Return the function `run`, which calls `compile_and_run` with what is `given` and saves the outputs.

    `does` stands in its docstring.
    """
    return _RUN.replace("DOES", does).replace("GIVEN", given)


_NAMES = "R T I Module relax tvm np base64 TypeVar range int float bool"
SCRIPT = Printed(frozenset(_NAMES.split()), frozenset(("typing", "tvm")), frozenset(("ml_dtypes",)))
"""What printed TVMScript may use."""
