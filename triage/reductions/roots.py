"""A reduction's result in the database: under its own signature, or as a face of what it follows from.

The root of a face is a failure of its own. It has but a few nodes and is reduced at once, unless its
signature is known already.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from corpus.case import Case
from oracles.judge import Judge
from oracles.naming.components import signature
from oracles.naming.signature import Signature
from oracles.verdict import Outcome, Verdict
from reducer.api import reduce_case
from reducer.options import DoesNotFail, Options
from triage.bugs.failures import record_failure, record_reduction
from triage.causes.consequences import Finding, Root, find_root
from triage.causes.cores import core_of, form_of, ill_typed
from triage.causes.sites import share_a_kernel, site_of_crash
from triage.store.causes import note_face, reduced_with_signature, rewritten_by, shown_alike
from triage.store.clusters import get_signature
from triage.store.database import Store
from triage.store.failures import ROOT, Failure, get_failure


def name_reduced(
    case: Case, verdict: Verdict, passes: tuple[str, ...], judge: Judge | None = None
) -> Signature:
    """The signature of what a reduction left; with a judge it says what only experiments tell.

    Of passes it says what they replaced, of a crash what is special of the operands of the node that dies.
    """
    named = signature(verdict, case.measure, case, passes)
    if judge is None or verdict.misuse_by_turns:
        return named
    if verdict.outcome is Outcome.CRASH:
        site = site_of_crash(case, judge)
        return Signature.of(*named.components, ("operands", "; ".join(sorted(site.telling)) if site else ""))
    if not passes:
        return named
    if verdict.outcome is Outcome.MISMATCH:
        return Signature.of(*named.components, ("core", core_of(case, verdict, passes, judge)))
    return Signature.of(*named.components, ("ill-typed", ill_typed(case, verdict, passes)))


MOST_CHECKS_FOR_ROOT = 60
"""A root has fewer nodes than the least case of its face: what takes longer is not searched to its end."""


def record_result(
    store: Store,
    failure: Failure,
    reduced: Case,
    verdict: Verdict,
    document: Mapping[str, Any],
    settings: Options,
    judge: Judge,
) -> tuple[Failure, Finding]:
    """Point a failure at its reduced case, in the cluster of its root where it has one."""
    passes = tuple(document["passes"])
    finding = find_root(reduced, verdict, passes, judge)
    root = _keep_root(store, failure, finding.root, settings, judge) if finding.root else None
    named = get_signature(store, root.signature) if root else name_reduced(reduced, verdict, passes, judge)
    alike = _alike(store, failure, reduced, passes, named) if finding.root is None else None
    if alike is not None:
        root, why = alike
        named, finding = get_signature(store, root.signature), replace(finding, why=why)
    after = record_reduction(store, failure, reduced, verdict, named, document)
    note_face(store, failure.id, root.id if root else None, finding.evidence())
    return after, finding


def _alike(
    store: Store, failure: Failure, reduced: Case, passes: tuple[str, ...], named: Signature
) -> tuple[Failure, str] | None:
    """The known failure that is one bug with this one though they are named otherwise, and why it is."""
    if twin := _twin(store, failure, reduced, passes):
        return twin, f"it dies in the same native function as {twin.name}"
    if reduced_with_signature(store, named.digest):
        return None
    twin = _of_one_form(store, failure, reduced, passes)
    return (twin, f"the same passes rewrite the same graph as in {twin.name}") if twin else None


def _twin(store: Store, failure: Failure, reduced: Case, passes: tuple[str, ...]) -> Failure | None:
    """The first crash of a kernel in the same native function, of an operator that may share its base."""
    own = _operators(reduced)
    if failure.outcome != Outcome.CRASH.value or passes or len(own) != 1:
        return None
    for known in shown_alike(store, failure.symptom, failure.release):
        other = _operators(store.load_case(known.case_id))
        if len(other) == 1 and other != own and share_a_kernel(own[0], other[0]) and not known.passes:
            return get_failure(store, known.failure)
    return None


def _of_one_form(store: Store, failure: Failure, reduced: Case, passes: tuple[str, ...]) -> Failure | None:
    """The first failure of another outcome for which the same passes need the same graph.

    None where such failures stand in several clusters: two defects of one rewrite, and nothing tells which.
    """
    form = form_of(reduced) if passes else None
    if form is None:
        return None
    rewritten = rewritten_by(store, failure.target, passes)
    alike = [known for known in rewritten if form_of(store.load_case(known.case_id)) == form]
    others = [known for known in alike if known.outcome != failure.outcome]
    is_one = bool(others) and len({known.cluster for known in alike}) == 1
    return get_failure(store, others[0].root) if is_one else None


def _operators(case: Case) -> list[str]:
    return [op for op in case.measure.ops if op != "Constant"]


def _keep_root(store: Store, face: Failure, root: Root, settings: Options, judge: Judge) -> Failure | None:
    """The failure that stands for a root: the known one of its signature, or the root reduced."""
    quick = name_reduced(root.case, root.verdict, root.passes, judge)
    known = reduced_with_signature(store, quick.digest)
    if known:
        return get_failure(store, known)
    with tempfile.TemporaryDirectory(prefix="crux-root-") as name:
        limited = replace(settings, max_checks=MOST_CHECKS_FOR_ROOT)
        try:
            done = reduce_case(root.case, Path(name) / "root", limited, judge=judge)
        except DoesNotFail:
            return None
        if done.verdict is None:
            return None
        passes = done.passes.minimal if done.passes else ()
        named = name_reduced(done.case, done.verdict, passes, judge)
        return _recorded(store, face, root, done.case, done.verdict, named, done.to_json())


def _recorded(
    store: Store,
    face: Failure,
    root: Root,
    reduced: Case,
    verdict: Verdict,
    named: Signature,
    document: Mapping[str, Any],
) -> Failure:
    """Store the root as a failure that opens the cluster where its face was until now."""
    known = reduced_with_signature(store, named.digest)
    if known:
        return get_failure(store, known)
    case = replace(root.case, origin=ROOT.format(face.name))
    provisional = get_signature(store, face.signature)
    failure = record_failure(store, case, root.verdict, release=face.release, sketched=provisional)
    return record_reduction(store, failure, reduced, verdict, named, document)
