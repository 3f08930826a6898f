"""The files for clusters in the documents: what they say is well-formed, and they start what there is."""

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from tests.helpers.commands import ROOT, waited_for
from tests.house.reference import commands, names_of, options
from triage.store.campaigns import last_campaign
from triage.store.database import Store

SLURM, KUBERAY = ROOT / "docs/cluster/crux.sbatch", ROOT / "docs/cluster/raycluster.yaml"


def crux_words(text: str) -> list[str]:
    """The words of the hunt that a file starts."""
    joined = re.sub(r"\\\n[ #]*", " ", text)
    (line,) = re.findall(r"^[ #]*(?:.*--\s+)?crux (hunt .*?)(?:>.*)?$", joined, re.M)
    return shlex.split(line.replace("$", ""))


def test_both_start_a_hunt_with_options_that_there_are():
    for path in (SLURM, KUBERAY):
        words = crux_words(path.read_text(encoding="utf-8"))
        assert words[0] == "hunt"
        assert "--cluster" in words
        known = {name for each in options(commands()["hunt"]) for name in names_of(each)}
        assert {word for word in words if re.match(r"--?[a-z]", word)} <= known


def test_the_cluster_of_kuberay_has_what_kuberay_needs():
    claim, cluster = yaml.safe_load_all(KUBERAY.read_text(encoding="utf-8"))
    assert (claim["kind"], cluster["kind"], cluster["apiVersion"]) == (
        "PersistentVolumeClaim",
        "RayCluster",
        "ray.io/v1",
    )
    head, (workers,) = cluster["spec"]["headGroupSpec"], cluster["spec"]["workerGroupSpecs"]
    assert all(isinstance(each, str) for each in head["rayStartParams"].values())
    assert workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]
    pod = head["template"]["spec"]
    assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    mounted = {each["name"] for each in pod["containers"][0]["volumeMounts"]}
    assert mounted == {each["name"] for each in pod["volumes"]}


def test_the_script_of_slurm_starts_a_head_workers_and_a_hunt_that_ends_in_good_order(tmp_path):
    """On commands of our own that write down how they are called."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "activate").write_text("")
    says = {
        "scontrol": "printf 'one\\ntwo\\nthree\\n'",
        "srun": 'echo "srun $*" >> "$HOME/calls"; exec sleep 5',
        "ray": '[ "$1 $2 $3" = "health-check --address one:6379" ]',
        "crux": "trap 'echo ended >> \"$HOME/calls\"; exit 0' TERM\n"
        'echo "crux $*" >> "$HOME/calls"; for i in $(seq 100); do /bin/sleep 0.1; done',
    }
    for name, text in says.items():
        (tools / name).write_text(f"#!/bin/bash\n{text}\n")
        (tools / name).chmod(0o755)
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(tmp_path), "ENVIRONMENT": str(tmp_path)}
    env |= {"SLURM_JOB_NODELIST": "x[1-3]", "SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "32"}
    script = subprocess.Popen(["bash", str(SLURM)], env=env, cwd=tmp_path, start_new_session=True)
    calls = tmp_path / "calls"
    assert waited_for(lambda: calls.exists() and "crux hunt" in calls.read_text())
    script.terminate()
    script.wait()
    found = calls.read_text()
    assert found.count("ray start --head") == 1
    assert found.count("ray start --address=one:6379") == 2
    assert "crux hunt --cluster one:6379 -j 95 --target ort" in found
    assert found.rstrip().endswith("ended")


def has_tested(log: Path) -> bool:
    """Whether the lines of a hunt tell of tests of its own; its arms have those of earlier ones too."""
    return re.search(r'"tests": [1-9][0-9]*, "valid"', log.read_text()) is not None


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("ray"), reason="Ray is not installed")
def test_the_script_of_slurm_starts_ray_and_a_second_job_goes_on(tmp_path):
    """Ray and crux as they are, on this machine; SLURM's commands alone are ours: two nodes that are one."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "activate").write_text(f"export PATH={Path(sys.executable).parent}:$PATH\n")
    srun = 'while [[ $1 == --* ]]; do shift; done\nexec "$@"'
    for name, text in {"scontrol": "hostname; echo second", "srun": srun}.items():
        (tools / name).write_text(f"#!/bin/bash\n{text}\n")
        (tools / name).chmod(0o755)
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(tmp_path), "ENVIRONMENT": str(tmp_path)}
    env |= {"SLURM_JOB_NODELIST": "x", "SLURM_CPUS_PER_TASK": "2"}
    said = []
    for job in ("1", "2"):
        with socket.create_server(("", 0)) as free:
            env |= {"SLURM_JOB_ID": job, "PORT": str(free.getsockname()[1])}
        script = subprocess.Popen(["bash", str(SLURM)], env=env, cwd=tmp_path, start_new_session=True)
        summary, log = tmp_path / f"crux-hunt/hunt-{job}.json", tmp_path / f"crux-hunt/hunt-{job}.log"
        try:
            assert waited_for(lambda log=log: log.exists() and has_tested(log))
            time.sleep(3)
            script.terminate()
            script.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(
                    script.pid, signal.SIGKILL
                )  # as SLURM ends what a job has left: Ray's own processes
        said.append(json.loads(summary.read_text())["tests"])
    assert min(said) > 0
    with Store(tmp_path / "crux-hunt/crux.db") as store:
        campaign = last_campaign(store, "ort")
    assert campaign.next_seed == sum(said)
