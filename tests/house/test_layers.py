"""The packages are ours alone, and the command line starts without any framework."""

import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

import pytest

from oracles.backends import backends

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SHIPPED: list[str] = PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
PACKAGES = [name for name in SHIPPED if not name.endswith((".py", "-stubs"))]


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_belongs_to_no_other_distribution(package):
    # An editable install lists no packages of its own, a wheel lists exactly these.
    assert packages_distributions().get(package, ["tensorcrux"]) == ["tensorcrux"]
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin == str(ROOT / package / "__init__.py")


def test_every_package_is_shipped_typed_and_in_a_layer():
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    contract = PYPROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    layered = {name.strip() for layer in contract for name in layer.split("|")}
    typed = {path.parent.name for path in ROOT.glob("*/py.typed")}
    assert folders == set(PACKAGES) == layered == typed


def test_a_backend_has_the_name_of_its_file():
    assert {name: Path(backend.file).stem for name, backend in backends().items()} == {
        name: name.replace("-", "_") for name in backends()
    }


def test_the_command_line_starts_without_a_framework():
    code = "import sys, triage.cli; print(sorted({'onnxruntime', 'tvm', 'torch'} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
