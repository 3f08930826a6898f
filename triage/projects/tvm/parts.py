"""Parts of scripts that all programs of TVM share: the case's own passes, and one run in a process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    """The function `passes`, of these parameters: what the case runs before the pipeline."""
    return _PASSES.replace("ARGS", parameters)


def run_part(does: str, given: str = "*CONFIGS[config]") -> str:
    """The function `run`, which calls `compile_and_run` with what is `given` and saves the outputs.

    `does` stands in its docstring.
    """
    return _RUN.replace("DOES", does).replace("GIVEN", given)


def call_by_position(settings: Mapping[str, Any], label: str) -> str:
    """The call of a script's `run` with what the configuration of that label sets, in order."""
    return f"run({', '.join(map(repr, settings['configs'][label]))})"


_NAMES = "R T I Module relax tvm np base64 TypeVar range int float bool inf nan"
SCRIPT = Printed(frozenset(_NAMES.split()), frozenset(("typing", "tvm")), frozenset(("ml_dtypes",)))
"""What printed TVMScript may use."""

TEST = """\
# Licensed to the Apache Software Foundation (ASF) under one
# or more contributor license agreements.  See the NOTICE file
# distributed with this work for additional information
# regarding copyright ownership.  The ASF licenses this file
# to you under the Apache License, Version 2.0 (the
# "License"); you may not use this file except in compliance
# with the License.  You may obtain a copy of the License at
#
#   http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing,
# software distributed under the License is distributed on an
# "AS IS" BASIS, WITHOUT WARRANTIES OR CONDITIONS OF ANY
# KIND, either express or implied.  See the License for the
# specific language governing permissions and limitations
# under the License.
{{ imports }}
import tvm.testing

{{ program }}


def {{ name }}():
{{ body | replace("np.testing.assert_allclose", "tvm.testing.assert_allclose") | indent(4, true) }}


if __name__ == "__main__":
    tvm.testing.main()
"""
"""As in TVM's `tests/python`."""
