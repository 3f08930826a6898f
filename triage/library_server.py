"""The process behind the module `tensorcrux`: answers its calls, each what the command of its name does.

A request is a line of JSON on the standard input, `call` and its words; an answer a line with `value`, or
`error` and `text`. Models come as words of the command line; cases go out as folders that a document
describes. It ends with its input, whatever is under way.
"""

import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

from corpus.case import Case
from corpus.errors import UserError
from corpus.formats import find_format
from corpus.values import Value
from generators import mixture
from oracles.judge import Judge
from oracles.verdict import Verdict
from reducer.api import DoesNotFail, reduce_case
from triage.bugs.failures import History, history_of_folder
from triage.bugs.known import Library, load_known
from triage.cases.sources import Judges
from triage.console.options import DEFAULT_DATABASE, CaseOptions
from triage.console.status import Progress
from triage.reductions.folders import Request, reducer_options
from triage.reports.newest_release import NewestReleases
from triage.reports.report import write_report
from triage.store.artifacts import verdict_document

Words = dict[str, Any]


def main() -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what anything else prints is no answer
    signal.signal(signal.SIGTERM, _interrupt)
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    with suppress(KeyboardInterrupt, BrokenPipeError):
        while True:
            answers.write(json.dumps(_answer(json.loads(requests.get()))) + "\n")
            answers.flush()


def _listen(requests: queue.SimpleQueue[str]) -> None:
    """Pass the requests on; the end of the input interrupts what is under way."""
    for line in sys.stdin:
        requests.put(line)
    os.kill(os.getpid(), signal.SIGTERM)


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _answer(words: Words) -> Words:
    """The result of a call; its errors are the caller's to raise, whatever they are."""
    try:
        os.chdir(words.pop("cwd"))
        return {"value": CALLS[words.pop("call")](**words)}
    except UserError as error:
        return {"error": "UserError", "text": str(error)}
    except DoesNotFail as error:
        return {"error": "DoesNotFail", "text": str(error)}
    except Exception:
        return {"error": "CruxFailed", "text": traceback.format_exc()}


@contextmanager
def _opened(
    model: str, is_own: bool, inputs: str | None, target: str | None, settings: Words
) -> Iterator[tuple[Case, Judge, CaseOptions]]:
    """The case and a judge of its target, closed at the end; `is_own`: the model is no file of the user's."""
    given = CaseOptions(target=target, inputs=Path(inputs) if inputs else None)
    options = replace(given, **settings)
    options = replace(options, db=Path(options.db)) if options.db else options
    with Judges(options) as judges:
        case, judge = judges.open(model)
        yield replace(case, origin="") if is_own else case, judge, options


def _check(**opening: Any) -> Words:
    with _opened(**opening) as (case, judge, _):
        return _verdict(judge.explain(case, judge.verdict(case)))


def _verdict(verdict: Verdict) -> Words:
    facts = {**verdict.texts, "is_bug": verdict.is_bug, "notes": list(verdict.notes)}
    return {**facts, "document": verdict_document(verdict)}


def _reduce(out: str, request: Words, **opening: Any) -> Words:
    with _opened(**opening) as (case, judge, options):
        settings = reducer_options(options, judge.target, Request(**request))
        done = reduce_case(case, Path(out), settings, judge=judge)
        return {
            "case": describe(done.case),
            "verdict": _verdict(done.verdict) if done.verdict else None,
            "is_minimal": done.is_minimal,
            "nodes": [done.before.nodes, done.after.nodes],
            "passes": done.passes.minimal if done.passes else [],
            "signature": done.signature.digest if done.signature else "",
            "checks": done.checks,
        }


def _report(out: str, project: str, known: str | None, **opening: Any) -> Words:
    history = History() if opening["is_own"] else history_of_folder(Path(opening["model"]))
    with _opened(**opening) as (case, judge, options):
        issues = load_known(options.db or DEFAULT_DATABASE, known or "")
        with NewestReleases(options, Progress()) as releases:
            made = write_report(case, judge, Path(out), history, Library(issues), project, releases=releases)
        return {**asdict(made), "folder": str(made.folder), "archive": str(made.archive)}


def _generate(out: str, ops: int, seed: int, strategy: str, trust: bool) -> Words:
    mixture.generate(Path(out), 1, ops, seed=seed, options=mixture.Options(strategy, trust=trust))
    return _load(str(Path(out) / f"seed-{seed}"))


def _load(folder: str) -> Words:
    return describe(Case.load(Path(folder)))


def describe(case: Case) -> Words:
    """All of a case that its folder does not say: identity, size, and the types of its inputs' bits."""
    return {
        "format": case.format,
        "program_file": find_format(case.format).program_file,
        "weights": {file.location: str(file.path) for file in case.external},
        "target": None if case.target is None else str(case.target),
        "settings": case.settings,
        "origin": case.origin,
        "notes": case.notes,
        "case_id": case.case_id,
        "canonical_hash": case.canonical_hash,
        "measure": asdict(case.measure),
        "dtypes": {name: _dtype(value) for name, value in case.inputs.items()},
    }


def _dtype(value: Value) -> str:
    first = value[0] if isinstance(value, list) and value else value
    return "" if first is None or isinstance(first, list) else first.dtype.name


CALLS: dict[str, Callable[..., Words]] = {
    "check": _check,
    "reduce": _reduce,
    "report": _report,
    "generate": _generate,
    "load": _load,
}
