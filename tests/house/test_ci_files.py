"""The Dockerfile, the action and its script: what a linter would ask, and that they name what is there."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.commands import completed
from tests.helpers.failing import clip_exception, healthy

ROOT = Path(__file__).parents[2]


def test_the_image_gets_all_that_the_wheel_holds_and_what_it_takes_is_there():
    copied = re.findall(r"^COPY +(.*) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    sources = {word for text in copied for word in text.split()}
    assert [name for name in sources if not (ROOT / name).exists()] == []
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {*wheel["only-include"], "pyproject.toml", "constraints.txt", "README.md", "LICENSE"} <= sources


@pytest.fixture(scope="module")
def action() -> dict[str, Any]:
    yaml = pytest.importorskip("yaml")
    found: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
    return found


def test_the_action_uses_what_it_declares(action):
    assert action["runs"]["using"] == "composite"
    steps = action["runs"]["steps"]
    text = json.dumps([steps, action["outputs"]])
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(action["inputs"])
    assert set(re.findall(r"steps\.(\w+)\.outputs", text)) <= {step.get("id") for step in steps}


def test_no_input_is_pasted_into_a_script_of_the_action_and_its_script_gets_what_it_asks_for(action):
    scripts = [step for step in action["runs"]["steps"] if "run" in step]
    assert not any("${{" in step["run"] for step in scripts)  # what an input says would be run
    (step,) = [each for each in scripts if "judge-cases" in each["run"]]
    asked = set(re.findall(r"\$\{([A-Z]+)[:-]", (ROOT / ".ci/judge-cases").read_text()))
    assert {"CASES", "OUT", "TARGET"} <= asked <= set(step["env"])


BUG = {"id": "F00001", "case": "cases/clip", "bug": True, "outcome": "exception", "title": "a | b"}


@pytest.mark.parametrize(
    ("status", "known", "state", "failing"),
    [
        ("", False, "new", ["any", "new"]),
        ("", True, "known", ["any"]),
        ("as expected", False, "known", ["any"]),
        ("differs", False, "regressed", ["any", "new", "regressed"]),
    ],
)
def test_the_job_fails_by_policy_and_says_where(tmp_path, status, known, state, failing):
    (tmp_path / "verdicts.jsonl").write_text(json.dumps(BUG) + "\n")
    (tmp_path / "replay.json").write_text(json.dumps([{"case": "clip", "status": status}]))
    results = [{"properties": {"failure": "F00001"}, "suppressions": [{}] * known}]
    (tmp_path / "bugs.sarif").write_text(json.dumps({"runs": [{"results": results}]}))
    command = [sys.executable, ROOT / ".ci/summarise.py", tmp_path]
    found = {}
    for policy in ("any", "new", "regressed"):
        done = completed([*command, policy])
        found[policy] = done.returncode
        level = "error" if policy in failing else "notice"
        assert done.stdout == f"::{level} file=cases/clip,title=crux {state}::a | b\n"
    assert [policy for policy, code in found.items() if code] == failing
    assert f"| `cases/clip` | {state} | exception | a \\| b |" in (tmp_path / "summary.md").read_text()


@pytest.mark.slow
def test_the_script_of_the_action_judges_shrinks_and_reports(tmp_path):
    replace(clip_exception(), origin="cases/clip/model.onnx").save(tmp_path / "cases" / "clip")
    healthy().save(tmp_path / "cases" / "healthy")
    crux = tmp_path / "crux"
    crux.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m triage.cli "$@"\n')
    crux.chmod(0o755)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "CASES": str(tmp_path / "cases"),
        "OUT": str(tmp_path / "out"),
        "CRUX": str(crux),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    done = completed([ROOT / ".ci/judge-cases"], cwd=tmp_path, env=environment)
    if done.returncode == 0:
        pytest.skip("the installed onnxruntime does not show the bug")
    assert (done.returncode, (tmp_path / "output").read_text()) == (1, "failing=1\n"), done.stderr
    assert (tmp_path / "out" / "reports" / "C0001" / "issue.md").is_file()
    assert (tmp_path / "out" / "index.html").is_file()
    assert json.loads((tmp_path / "out" / "bugs.sarif").read_text())["version"] == "2.1.0"
    assert json.loads((tmp_path / "out" / "quality.json").read_text()) == []  # it is known
    assert "| known | exception |" in (tmp_path / "summary.md").read_text()
    assert f"::error file={tmp_path}/cases/clip/case.json,title=crux known::" in done.stdout
    new_only = completed([ROOT / ".ci/judge-cases"], cwd=tmp_path, env=environment | {"POLICY": "new"})
    assert new_only.returncode == 0


# The launchers: clean output, nothing done when up to date, one clear line when they cannot go on

LAUNCHERS = ["bin/crux", "bin/test", "bin/check", ".ci/run", ".ci/judge-cases"]


def in_a_checkout(folder: Path, script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script that has sourced bin/_environment.sh in a checkout of nothing but what it reads."""
    (folder / "bin").mkdir(exist_ok=True)
    for name in ("bin/_environment.sh", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder / name)
    command = ["bash", "-euo", "pipefail", "-c", f". {folder}/bin/_environment.sh; {script}"]
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("CRUX_")}
    return completed(command, env=inherited | environment)


def up_to_date_checkout(folder: Path, extras: str = "tvm,torch,dev") -> None:
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".venv/bin/python").symlink_to(Path(sys.executable).resolve())
    (folder / ".venv/bin/crux").symlink_to("/bin/true")
    stamped = in_a_checkout(folder, "write_stamp", CRUX_EXTRAS=extras)
    assert stamped.returncode == 0


IS_UP_TO_DATE = "if is_up_to_date; then echo yes; else echo no; fi"


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_launcher_is_an_executable_script_that_parses(launcher):
    assert os.access(ROOT / launcher, os.X_OK)
    subprocess.run(["bash", "-n", ROOT / launcher], check=True)


def test_an_environment_with_its_stamp_is_up_to_date(tmp_path):
    up_to_date_checkout(tmp_path)
    assert in_a_checkout(tmp_path, IS_UP_TO_DATE).stdout == "yes\n"
    prepared = in_a_checkout(tmp_path, "prepare_environment; echo done")
    assert (prepared.returncode, prepared.stdout, prepared.stderr) == (0, "done\n", "")


@pytest.mark.parametrize(
    "change",
    [
        'echo >>"$root/constraints.txt"',
        "extras=none",
        'ln -sf /bin/true "$venv/bin/python"',
        'rm "$venv/bin/crux"',
        'rm "$venv/stamp"',
        ': >"$venv/unfinished"',
    ],
)
def test_any_change_asks_for_a_refresh(tmp_path, change):
    up_to_date_checkout(tmp_path)
    assert in_a_checkout(tmp_path, f"{change}; {IS_UP_TO_DATE}").stdout == "no\n"


INSTALL = """
install_packages() { printf '%s\\n' "$@"; }
make_venv() { echo made anew; }
compile_packages() { :; }
"""


def test_an_extra_is_added_to_what_is_there_and_the_next_start_finds_it(tmp_path):
    up_to_date_checkout(tmp_path, "")
    assert in_a_checkout(tmp_path, IS_UP_TO_DATE).stdout == "yes\n"
    added = in_a_checkout(tmp_path, f"{INSTALL} add_extra tvm")
    assert added.stdout.split() == ["apache-tvm>=0.27", "apache-tvm-ffi>=0.1.14"]
    assert "adding tvm" in added.stderr
    assert in_a_checkout(tmp_path, IS_UP_TO_DATE, CRUX_EXTRAS="tvm").stdout == "yes\n"
    assert in_a_checkout(tmp_path, IS_UP_TO_DATE, CRUX_EXTRAS="dev").stdout == "no\n"


def test_packages_change_only_after_the_commands_that_use_them_have_ended(tmp_path):
    up_to_date_checkout(tmp_path)
    holding = os.open(tmp_path / ".venv", os.O_RDONLY)
    fcntl.flock(holding, fcntl.LOCK_SH)
    assert in_a_checkout(tmp_path, "prepare_environment; echo beside it").stdout == "beside it\n"
    script = f". {tmp_path}/bin/_environment.sh; extras=new; rm $venv/stamp; {INSTALL} prepare_environment"
    with subprocess.Popen(
        ["bash", "-euc", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as waiting:
        assert "waiting until it ends" in waiting.stderr.readline()
        assert waiting.poll() is None
        os.close(holding)
        assert "made anew" in waiting.communicate()[0]


def test_no_usable_python_is_one_clear_line(tmp_path):
    result = in_a_checkout(tmp_path, "prepare_environment", CRUX_PYTHON="/bin/false")
    assert result.returncode == 3
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert "Python 3.11 or 3.12" in result.stderr


def test_a_shim_that_runs_nothing_is_not_taken_for_python(tmp_path):
    shims = tmp_path / "shims"
    shims.mkdir()
    for name in ("python3.11", "python3.12", "python3"):
        (shims / name).write_text("#!/bin/sh\necho command not found >&2\nexit 127\n")
        (shims / name).chmod(0o755)
    good = tmp_path / "good"
    good.mkdir()
    (good / "python3").symlink_to(sys.executable)
    path = f"{shims}:{good}:{os.environ['PATH']}"
    found = in_a_checkout(tmp_path, "find_python", PATH=path).stdout.strip()
    assert found
    assert not found.startswith(str(shims))


def test_a_failed_install_is_told_and_tried_again(tmp_path):
    up_to_date_checkout(tmp_path)
    broken = (
        "install_packages() { echo 'no such package' >\"$venv/install.log\"; return 1; }; make_venv() { :; }"
    )
    result = in_a_checkout(tmp_path, f'rm "$venv/stamp"; {broken}; prepare_environment; echo never')
    assert (result.returncode, result.stdout) == (3, "")
    assert "no such package" in result.stderr
    assert in_a_checkout(tmp_path, IS_UP_TO_DATE).stdout == "no\n"
