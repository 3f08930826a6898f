"""The parts of the record: groups of facts, each taken by running commands in a folder of its own."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.frozen_calls import RECORD, REGRESSIONS, Facts, Take, document, folder, listed, run

MODES = ("strict", "disruptive", "vulnerable", "nonfinite", "mixed")
PROGRAMS = 200

SCRIPTS = RECORD / "scripts"

# Too dear for every day: taken with `--all`, or when `--only` names them.
DEAR = {
    "clusters/failures",
    "reductions/failures",
    "reductions/tir-fuzzed",
    "reductions/torch-scripts",
    "verdicts/cases",
    "verdicts/inductor-aten",
    "verdicts/inductor-scripts",
    "verdicts/regressions-relax",
    "verdicts/tvm-relax-mutate",
    "verdicts/tvm-tir-vulnerable",
}

# group: target, how many, options of `crux generate`
JUDGED = {
    "ort-random": ("ort", 36, "--strategy random"),
    "ort-disruptive": ("ort", 20, "--mode disruptive"),
    "ort-vulnerable": ("ort", 20, "--mode vulnerable"),
    "ort-nonfinite": ("ort", 10, "--mode nonfinite"),
    "ort-backward": ("ort", 6, "--strategy backward"),
    "ort-functions": ("ort", 6, "--strategy functions"),
    "ort-mutate": ("ort", 6, "--strategy mutate"),
    "ort-patterns": ("ort", 12, "--strategy patterns"),
    "ort-high-order": ("ort", 6, "--strategy high_order"),
    "ort-smt": ("ort", 4, "--strategy smt"),
    "ort-uniform": ("ort", 4, "--strategy uniform"),
    "reference-random": ("reference", 6, "--ops 6"),
    "torch-random": ("torch", 4, "--ops 5"),
    "torch-onnx-random": ("torch-onnx", 3, "--ops 4"),
    "inductor-random": ("inductor", 2, "--ops 4"),
    "torch-aten": ("torch", 4, "--strategy aten"),
    "inductor-aten": ("inductor", 3, "--strategy aten --ops 5"),
    "tvm-random": ("tvm", 5, "--ops 6"),
    "tvm-relax": ("tvm", 8, "--strategy relax"),
    "tvm-relax-disruptive": ("tvm", 4, "--strategy relax --mode disruptive"),
    "tvm-relax-high-order": ("tvm", 3, "--strategy relax_high_order"),
    "tvm-relax-mutate": ("tvm", 4, "--strategy relax_mutate"),
    "tvm-relax-patterns": ("tvm", 6, "--strategy relax_patterns"),
    "tvm-tir": ("tvm", 16, "--strategy tir"),
    "tvm-tir-disruptive": ("tvm", 10, "--strategy tir --mode disruptive"),
    "tvm-tir-vulnerable": ("tvm", 6, "--strategy tir --mode vulnerable"),
}

# group: programs, options of `crux generate`, what the predicate looks for in the bytes of a case
GREPPED = {
    "onnx": (16, "--strategy random --ops 20", r"[A-Z][A-Za-z]{3,}"),
    "onnx-functions": (4, "--strategy functions --ops 12", r"[A-Z][A-Za-z]{3,}"),
    "onnx-patterns": (4, "--strategy patterns --ops 12", r"[A-Z][A-Za-z]{3,}"),
    "relax": (4, "--strategy relax --ops 12", r'"[a-z_]{4,}"'),
    "tir": (6, "--strategy tir --ops 12", r'"[a-z_]{3,}"'),
    "onnx-aten": (3, "--strategy aten --ops 12", r"[a-z]{4,}(?=_v\d)"),
}


# verdicts


def verdicts() -> dict[str, Take]:
    groups: dict[str, Take] = {name: partial(_generated, *spec) for name, spec in JUDGED.items()}
    groups |= {f"regressions-{name}": partial(_regressions, name) for name in ("onnx", "relax", "tir")}
    groups["torch-scripts"] = partial(_scripts, "torch", "torch")
    groups["inductor-scripts"] = partial(_scripts, "torch", "inductor")
    groups["relax-scripts"] = partial(_scripts, "relax", "tvm")
    groups["tir-scripts"] = partial(_scripts, "tir", "tvm")
    groups["cases"] = lambda room: _judged(room, _models("CRUX_CASES_BENCH"), ())
    groups["fuzzed-ort"] = partial(_fuzzed, "ort", "mixed", 640)
    groups["fuzzed-tir"] = partial(_fuzzed, "tvm", "tir", 48)
    return groups


def _regressions(language: str, room: Path) -> Facts:
    cases = sorted(path.parent for path in REGRESSIONS.glob("*/case.json"))
    asked = [case for case in cases if _language(case) == language and not case.name.startswith("openvino-")]
    return _judged(room, asked, ())


def _language(case: Path) -> str:
    return json.loads((case / "case.json").read_text())["format"]


def _scripts(language: str, target: str, room: Path) -> Facts:
    return _judged(room, sorted(SCRIPTS.glob(f"{language}_*.py")), ("--target", target, "--trust"))


def _models(variable: str) -> list[Path]:
    return [each for each in folder(variable) if (each / "model.onnx").is_file()]


def _generated(target: str, count: int, options: str, room: Path) -> Facts:
    return _judged(room, _generate(room, count, options), ("--target", target))


def _generate(room: Path, count: int, options: str) -> list[Path]:
    document(run(room, "generate", "-o", "programs", "--json", "--count", str(count), *options.split()))
    return [room / "programs" / f"seed-{seed}" for seed in range(count)]


def _judged(room: Path, cases: Iterable[Path], options: Iterable[str]) -> Facts:
    cases = list(cases)
    done = run(room, "check", *map(str, cases), "--json", "--db", "crux.db", *options)
    facts = {case.name: _verdict(each) for case, each in zip(cases, listed(document(done)), strict=True)}
    names = {each.get("id"): case.name for case, each in zip(cases, listed(document(done)), strict=True)}
    for name, grouped in _groups(room, names).items():
        facts[name] |= grouped
    return facts


def _verdict(answer: Mapping[str, Any]) -> Facts:
    """A title may quote an address, which differs from process to process."""
    facts = {key: answer.get(key) for key in ("outcome", "phase", "symptom", "title", "bug")}
    return facts | {"title": re.sub(r"0x[0-9a-f]{6,}", "0x*", facts["title"] or "")}


def _groups(room: Path, names: Mapping[str | None, str]) -> Facts:
    """By name of the case its signature, and the case after which its cluster is called here."""
    facts: Facts = {}
    if not (room / "crux.db").is_file():
        return facts
    for cluster in document(run(room, "triage", "--db", "crux.db", "--json")):
        members = [(names.get(each["id"], each["origins"][0]), each) for each in cluster["failures"]]
        first = min(name for name, _ in members)
        for name, each in members:
            facts[name] = {"signature": each["signature"], "cluster": first, "known": cluster["known"]}
    return facts


def _fuzzed(target: str, strategy: str, tests: int, room: Path) -> Facts:
    words = ("--target", target, "--strategy", strategy, "--tests", str(tests), "--seed", "0")
    summary = document(run(room, "fuzz", *words, "--db", "crux.db", "--json"))
    counts = {key: summary.get(key) for key in ("tests", "valid", "supported", "failures", "clusters")}
    return {"all": counts, **_groups(room, {})}


# reductions


def reductions() -> dict[str, Take]:
    groups: dict[str, Take] = {name: partial(_grepped, *spec) for name, spec in GREPPED.items()}
    groups["ort-fuzzed"] = partial(_reduced_finds, "ort", "mixed", 640)
    groups["tir-fuzzed"] = partial(_reduced_finds, "tvm", "tir", 24)
    groups["torch-scripts"] = partial(_reduced_scripts, "inductor", "torch_floor")
    groups["relax-scripts"] = partial(_reduced_scripts, "tvm", "relax_equal")
    groups["failures"] = _reduced_failures
    return groups


def _grepped(count: int, options: str, words: str, room: Path) -> Facts:
    """Reductions whose predicate is a word or two of the program: little but the search costs time."""
    facts: Facts = {}
    for at, case in enumerate(_generate(room, count, options)):
        text = _program(case).read_bytes().decode("latin-1")
        there = sorted(set(re.findall(words, text)))
        wanted = [there[(at * 7 + skip) % len(there)] for skip in range(0, 1 + at % 2 * 3, 3)]
        check = " && ".join(f"grep -aqF {shlex.quote(word)} {{}}" for word in wanted)
        done = run(room, "reduce", str(case), "-o", f"least-{at}", "--check", check, "--json")
        facts[f"{case.name} {' '.join(wanted)}"] = _reduction(document(done))
    return facts


def _reduced_scripts(target: str, names: str, room: Path) -> Facts:
    facts: Facts = {}
    for name in names.split():
        words = ("-o", name, "--target", target, "--trust", "--json", "--max-checks", "80")
        facts[name] = _reduction(document(run(room, "reduce", str(SCRIPTS / f"{name}.py"), *words)))
    return facts


def _program(case: Path) -> Path:
    return next(path for path in sorted(case.iterdir()) if path.name not in ("case.json", "inputs.npz"))


def _reduction(answer: Mapping[str, Any]) -> Facts:
    sizes = "nodes_before nodes_after bytes_before bytes_after checks sweep_checks"
    kept = f"{sizes} symptom signature minimal ops passes"
    return {key: answer.get(key) for key in kept.split()}


def _reduced_finds(target: str, strategy: str, tests: int, room: Path) -> Facts:
    words = ("--target", target, "--strategy", strategy, "--tests", str(tests), "--seed", "0")
    run(room, "fuzz", *words, "--db", "crux.db", "--json")
    answers = listed(document(run(room, "reduce", "--all", "--db", "crux.db", "--json")))
    return {each["id"]: _reduction(each) for each in answers}


def _reduced_failures(room: Path) -> Facts:
    facts: Facts = {}
    for case in _models("CRUX_FAILURES_BENCH")[::6]:
        done = run(room, "reduce", str(case), "-o", case.name, "--target", "ort", "--json")
        facts[case.name] = {"exit": done.returncode} if done.returncode else _reduction(document(done))
    return facts


# programs


def programs() -> dict[str, Take]:
    return {name: partial(_hashes, name) for name in _strategies()}


def _strategies() -> list[str]:
    """All that the program lists when it is asked for one that it has not."""
    said = run(REGRESSIONS, "generate", "-o", "/nowhere", "--strategy", "none-such").stderr
    return re.findall(r"\w+", said.partition("there is ")[2].partition(", or ")[0])


def _hashes(strategy: str, room: Path) -> Facts:
    facts: Facts = {}
    for mode in MODES:
        words = ("--strategy", strategy, "--mode", mode, "--count", str(PROGRAMS), "--json")
        done = run(room, "generate", "-o", mode, *words)
        made = [_hash(room / mode / f"seed-{seed}") for seed in range(PROGRAMS)]
        facts[mode] = made if done.returncode == 0 else {"exit": done.returncode}
    return facts


def _hash(case: Path) -> str:
    """Of all bytes of a case's folder."""
    digest = hashlib.sha256()
    for path in sorted(case.rglob("*")) if case.is_dir() else ():
        digest.update(
            f"{path.name} {path.stat().st_size} ".encode() + path.read_bytes() if path.is_file() else b""
        )
    return digest.hexdigest()[:6]


# clusters


def clusters() -> dict[str, Take]:
    return {
        "titles": lambda room: _clustered(room, _titles()),
        "traces": lambda room: _clustered(room, {each.name: each.read_bytes() for each in _traces()}),
        "failures": lambda room: _judged(room, _models("CRUX_FAILURES_BENCH"), ("--target", "ort")),
    }


def _titles() -> dict[str, bytes]:
    """What the regression cases say of themselves, as if it were a trace each."""
    expected = {
        path.parent.name: json.loads(path.read_text()) for path in REGRESSIONS.glob("*/expected.json")
    }
    return {f"{name}.txt": each["title"].encode() for name, each in expected.items()}


def _traces() -> list[Path]:
    return [path for path in folder("CRUX_TRACES_BENCH") if path.suffix == ".txt"]


def _clustered(room: Path, texts: Mapping[str, bytes]) -> Facts:
    (room / "traces").mkdir()
    for name, text in texts.items():
        (room / "traces" / name).write_bytes(text)
    clustered = document(run(room, "triage", "traces", "traces", "--json"))
    by_name = {Path(name).name: cluster for name, cluster in clustered.items()}
    return {name: min(each for each in by_name if by_name[each] == by_name[name]) for name in by_name}


# The part of the record on the command line itself: help, options, the keys of `--json`, exit codes

COMMAND = re.compile(r"^  ([a-z]+)  +\S", re.MULTILINE)
OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")


def usage() -> dict[str, Take]:
    return {
        "help": lambda room: dict(_helps(room, ())),
        "ordinary": lambda room: _exits(_furnished(room), "ordinary"),
        "wrong": lambda room: _exits(_furnished(room), "wrong"),
    }


def _helps(room: Path, words: tuple[str, ...]) -> Iterator[tuple[str, Facts]]:
    """The help of a command and of all below it."""
    text = run(room, *words, "--help-all").stdout
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    yield " ".join(("crux", *words)), {"text": digest, "options": sorted(set(OPTION.findall(text)))}
    for command in COMMAND.findall(text.partition("\nCommands\n")[2].partition("\n\n")[0]):
        yield from _helps(room, (*words, command))


def _furnished(room: Path) -> Path:
    for name, case in (("bad", "div-mul-fusion-rank"), ("tir", "tir-clz-of-few-bits")):
        shutil.copytree(REGRESSIONS / case, room / name)
    run(room, "generate", "-o", "seeds", "--count", "1", "--ops", "3")
    shutil.copytree(room / "seeds" / "seed-0", room / "good")
    run(room, "check", "bad", "--db", "crux.db")
    (room / "folder").mkdir()
    (room / "texts").mkdir()
    (room / "texts" / "one.txt").write_text("RuntimeError: the rank of v1 is 3, not 2")
    (room / "text.onnx").write_text("no model")
    (room / "empty.onnx").write_bytes(b"")
    (room / "script.py").write_text("print('hello')\n")
    return room


def _exits(room: Path, table: str) -> Facts:
    """Each line of a table, in order, in one room: `bad` fails, `good` passes, `tir` is another language."""
    facts: Facts = {}
    for line in (RECORD / f"{table}.txt").read_text().splitlines():
        done = run(room, *shlex.split(line))
        again = " again" * (line in facts)
        facts[line + again] = {"exit": done.returncode, "keys": _keys_printed(done.stdout)}
    return facts


def _keys_printed(text: str) -> list[str]:
    try:
        return sorted(set(_keys(json.loads(text), "")))
    except ValueError:
        return []


def _keys(value: Any, path: str) -> Iterator[str]:
    """Where something stands in a document; a key that is data, such as an operator's name, reads `*`."""
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _keys(each, f"{path}.{key if re.fullmatch('[a-z_]+', key) else '*'}")
    elif isinstance(value, list) and value:
        for each in value:
            yield from _keys(each, f"{path}[]")
    else:
        yield path


PARTS = {
    "verdicts": verdicts,
    "reductions": reductions,
    "programs": programs,
    "clusters": clusters,
    "usage": usage,
}
