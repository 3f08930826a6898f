"""The wheel, installed outside of the repository in an environment of its own, is all that crux needs.

Only the packages that it depends on are borrowed, as links, from the environment that runs the tests.
"""

import json
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.helpers.commands import completed

ROOT = Path(__file__).parents[2]
OURS = {"corpus", "generators", "oracles", "reducer", "tensorcrux", "triage"}
DISTRIBUTIONS = """
import json
from importlib.metadata import packages_distributions as found
print(json.dumps({name: found().get(name) for name in %r}))
"""
TYPED = """
import onnx

import tensorcrux
from tensorcrux.testing import assert_agrees

verdict: tensorcrux.Verdict = tensorcrux.check("model.onnx", target="ort", rtol=1e-3, timeout=5.0)
small: tensorcrux.Reduction = tensorcrux.reduce("model.onnx", minutes=1.0)
reveal_type(small.nodes)


def test_it() -> None:
    assert_agrees(onnx.load("model.onnx"), target="ort", atol=1e-4)
    tensorcrux.check("model.onnx", rtoll=1)
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, made by the build backend of the tests' environment."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder]
    done = completed(command, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of an environment with the wheel; of ours it has nothing else."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    packages = Path(sysconfig.get_path("purelib"))
    borrowed, own = home / "borrowed", next(home.glob("lib/python*/site-packages"))
    borrowed.mkdir()
    for each in packages.iterdir():
        if "tensorcrux" not in each.name and each.suffix != ".pth":
            (borrowed / each.name).symlink_to(each)
    (own / "borrowed.pth").write_text(f"{borrowed}\n")
    pip = [sys.executable, "-m", "pip", "--python", home / "bin" / "python", "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", wheel], check=True)
    return home / "bin"


def run(
    folder: Path, *command: str | Path, variables: Mapping[str, str] = {}
) -> subprocess.CompletedProcess[str]:
    """One command in a folder outside of the repository, without a variable that could lead back."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), **variables}
    environment["CRUX_SANDBOX_SHOWS"] = sysconfig.get_path("purelib")  # where the links lead
    return completed(command, cwd=folder, env=environment)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import onnx

    text = """<ir_version: 8, opset_import: ["": 17]>
        half (double[3] x) => (double[3] y) <double low = {-1.0}> { r = Relu(x) y = Clip(r, low) }"""
    path = tmp_path_factory.mktemp("models") / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    return path


def test_the_wheel_holds_the_packages_their_data_and_the_manual_page_and_no_tests(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    shared = [name.split("/", 1)[1] for name in names if ".data/" in name]
    assert shared == ["data/share/man/man1/crux.1"]
    ours = [name for name in names if ".dist-info/" not in name and ".data/" not in name]
    tops = {name.split("/")[0].removesuffix(".py") for name in ours}
    assert tops == {*OURS, "tensorcrux-stubs"}
    kept = completed(
        ["git", "ls-files", "tensorcrux.py", "tensorcrux-stubs", *sorted(OURS)],
        cwd=ROOT, check=True).stdout.splitlines()  # fmt: skip
    assert sorted(set(kept) - set(names)) == []


def test_our_package_names_are_of_our_distribution_alone(installed, tmp_path):
    done = run(tmp_path, installed / "python", "-c", DISTRIBUTIONS % sorted(OURS))
    assert json.loads(done.stdout) == {name: ["tensorcrux"] for name in OURS}, done.stderr


def test_a_model_is_judged_and_reduced(installed, tmp_path, model):
    checked = run(tmp_path, installed / "crux", "check", model, "--json")
    assert checked.returncode in (0, 1), checked.stderr
    if checked.returncode == 0:
        pytest.skip("the installed onnxruntime does not show the bug")
    assert json.loads(checked.stdout)["outcome"] == "exception"
    reduced = run(tmp_path, installed / "crux", "reduce", model, "-o", "small", "--json")
    assert json.loads(reduced.stdout)["nodes_after"] == 2, reduced.stderr
    assert (tmp_path / "small" / "reduction.html").is_file()


def test_a_type_checker_knows_the_library(installed, tmp_path):
    """One line of the file is wrong: a checker that knows nothing of the library would not see it."""
    (tmp_path / "test_typed.py").write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", installed / "python"]
    done = run(tmp_path, *command, "--follow-imports=silent", "test_typed.py")
    assert 'note: Revealed type is "tuple[int, int]"' in done.stdout, done.stdout + done.stderr
    errors = [line for line in done.stdout.splitlines() if ": error: " in line]
    assert len(errors) == 1, done.stdout
    assert 'Unexpected keyword argument "rtoll" for "check"' in errors[0]


def test_nothing_of_a_users_project_is_shadowed_and_nothing_of_it_shadows_us(installed, tmp_path, model):
    """Its modules have our names; they are what the project's own code imports, and crux never does."""
    write_project(tmp_path, model)
    python, searched = installed / "python", {"PYTHONPATH": "."}
    commands = [
        [installed / "crux", "check", model, "--json"],
        [python, "-m", "tensorcrux", "--version"],
        [installed / "crux", "generate", "--count", "60", "--ops", "2", "-j", "2", "-o", "programs"],
        [installed / "crux", "fuzz", "--tests", "4", "-j", "2", "--seed", "1"],
        [python, "-m", "pytest", "-q", "--crux-out", "bundles", "-p", "no:cacheprovider"],
    ]
    for command in commands:
        done = run(tmp_path, *command, variables=searched)
        assert done.returncode in (0, 1), f"{command}\n{done.stdout}\n{done.stderr}"
        assert "imported" not in done.stdout + done.stderr, command
    assert "2 passed" in done.stdout, done.stdout
    assert list(tmp_path.glob("bundles/*/case/case.json"))


def test_a_package_of_our_name_that_is_imported_in_place_of_ours_is_named(installed, tmp_path):
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "__init__.py").write_text("")
    started = run(tmp_path, installed / "python", "-m", "triage.cli", "doctor")
    assert started.returncode == 1
    assert f"the package `corpus` is found at {tmp_path / 'corpus'}" in started.stderr.splitlines()[-1]


def write_project(folder: Path, model: Path) -> None:
    """A user's project: modules and packages of our names, which complain when crux imports them."""
    for name in sorted(OURS - {"tensorcrux"}):
        place = folder / name / "__init__.py" if name in ("oracles", "generators") else folder / f"{name}.py"
        place.parent.mkdir(exist_ok=True)
        place.write_text("import sys\nOWN = True\nif 'conftest' not in sys.modules: sys.exit('imported')\n")
    names = ", ".join(sorted(OURS - {"tensorcrux"}))
    (folder / "conftest.py").write_text("")
    (folder / "test_project.py").write_text(
        f"import {names}\nimport onnx, pytest\n"
        "from tensorcrux.testing import Disagreement, assert_agrees\n\n"
        f"def test_its_own_modules():\n    assert corpus.OWN and triage.OWN and oracles.OWN\n\n"
        "def test_of_a_model():\n"
        f"    with pytest.raises(Disagreement, match='of 2 nodes'):\n"
        f"        assert_agrees(onnx.load({str(model)!r}), minutes=0.5)\n"
    )
