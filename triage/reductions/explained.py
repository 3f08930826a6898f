"""Failures that a known bug explains: asked before a reduction, kept with evidence, and sampled.

The root of a face is a failure of its own. It has but a few nodes and is reduced at once, unless its
signature is known already.
"""

import tempfile
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from corpus.case import Case
from oracles.judge import Judge
from oracles.naming import Signature, signature
from oracles.verdict import Outcome, Phase, Verdict
from reducer.api import reduce_case
from reducer.course import DoesNotFail, Options
from reducer.pass_sets import core_of
from triage.bugs.failures import mark_explained, record_failure, record_reduction, return_to_new
from triage.causes.consequences import Finding, Root, find_root
from triage.causes.cores import Sites, form_of, ill_typed, share_a_kernel, site_of_crash
from triage.causes.explaining import Bug, Explanation, by_symptom, counting, explain, operators_of
from triage.clustering.grouping import BEFORE_REDUCTION
from triage.store.causes import (
    count_explained,
    explained_by,
    explanation_of,
    forget_explanations,
    note_explained,
    note_face,
    reduced_bugs,
    reduced_with_signature,
    rewritten_by,
    samples,
    shown_alike,
)
from triage.store.clusters import get_signature
from triage.store.database import Store
from triage.store.failures import EXPLAINED, NEW, REDUCED, Failure, get_failure, list_failures, origins
from triage.store.names import cluster_name

FIRST_SAMPLE, BETWEEN_SAMPLES = 10, 8
"""Of the failures that a bug explains the tenth, the 80th, the 640th and so on are reduced anyway."""


@dataclass
class Explainer:
    """Asks of each waiting failure of a target, once for each bug, whether that bug explains it.

    Only a bug whose operators the failure holds is asked about. A sample of what a bug explains is left for
    reduction; `hold_to_sample` says what follows from it, once it is reduced.
    """

    store: Store
    target: str
    judge: Judge
    bugs: dict[int, Bug] = field(default_factory=dict)
    asked: dict[int, set[int]] = field(default_factory=dict)
    operators: dict[str, Counter[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sites = Sites(self.judge)
        self.refused: set[int] = set()

    def run(self) -> Iterator[tuple[Failure, Explanation]]:
        """Go through the waiting failures; yields each that needs no reduction, as it is put aside."""
        self._learn_bugs()
        for failure in list_failures(self.store, status=NEW):
            if failure.target == self.target:
                found = self._explain(failure)
                if found is not None:
                    yield failure, found

    def _learn_bugs(self) -> None:
        for each in reduced_bugs(self.store, self.target):
            known = self.bugs.get(each.failure)
            if known is None or known.shown != each.shown:
                case = known.case if known else self.store.load_case(each.case_id)
                name = cluster_name(each.cluster)
                bug = Bug(each.failure, name, case, each.outcome, each.passes, each.shown, each.core)
                self.bugs[each.failure] = bug

    def _explain(self, failure: Failure) -> Explanation | None:
        if explanation_of(self.store, failure.id):
            return None
        held = self._operators_of(failure.case_id)
        telling = tuple(bug for bug in self.bugs.values() if bug.key not in self.refused)
        found = by_symptom(failure.symptom, failure.release, held, telling) or self._by_checks(failure, held)
        return found if found and found.bug and self._put_aside(failure, found.bug, found) else None

    def _by_checks(self, failure: Failure, held: Counter[str]) -> Explanation | None:
        """Ask the bugs that were not asked yet about a failure that holds their operators."""
        asked = self.asked.setdefault(failure.id, set())
        fitting = [
            bug for bug in self.bugs.values() if bug.key not in asked and bug.may_be_in(held, failure.symptom)
        ]
        asked.update(self.bugs)
        case = self.store.load_case(failure.case_id)
        if not fitting or case.format != self.judge.format:
            return None
        verdict = self.judge.verdict(case)
        return (
            counting(explain(case, verdict, fitting, self.judge, self.sites), 1) if verdict.is_bug else None
        )

    def hold_to_sample(self, number: int) -> int:
        """Reopen explained failures if their reduced sample is another bug; return how many.

        The bug that was wrongly named explains nothing by its symptom alone from now on.
        """
        sample = explanation_of(self.store, number)
        if sample is None or get_failure(self.store, number).status != REDUCED:
            return 0
        bug = get_failure(self.store, int(sample["bug"]))
        if get_failure(self.store, number).cluster == bug.cluster:
            return 0
        given_back = explained_by(self.store, bug.id, EXPLAINED)
        return_to_new(self.store, given_back)
        forget_explanations(self.store, given_back)
        self.refused.add(bug.id)
        return len(given_back)

    def _put_aside(self, failure: Failure, bug: Bug, found: Explanation) -> bool:
        """Keep the explanation; whether the failure needs no reduction: a sample does."""
        is_sample = _is_sample(count_explained(self.store, bug.key) + 1)
        note_explained(self.store, failure.id, bug.key, found.evidence())
        if not is_sample:
            mark_explained(self.store, failure, get_failure(self.store, bug.key), found.why)
        return not is_sample

    def _operators_of(self, case_id: str) -> Counter[str]:
        if case_id not in self.operators:
            self.operators[case_id] = operators_of(self.store.load_case(case_id))
        return self.operators[case_id]


def _is_sample(number: int) -> bool:
    """Whether the failure of that number, of those that one bug explains, is reduced anyway."""
    wanted = FIRST_SAMPLE
    while wanted < number:
        wanted *= BETWEEN_SAMPLES
    return wanted == number


def name_reduced(
    case: Case, verdict: Verdict, passes: tuple[str, ...], judge: Judge | None = None
) -> Signature:
    """The signature of what a reduction left; with a judge it says what only experiments tell.

    Of passes it says what they replaced, of a crash what is special of the operands of the node that dies.
    Runs refuse one rewrite in several texts, one an operand.
    """
    named = signature(verdict, case.measure, case, passes)
    if judge is None or verdict.misuse_by_turns:
        return named
    if verdict.outcome is Outcome.CRASH:
        site = site_of_crash(case, judge)
        return Signature.of(*named.components, ("operands", "; ".join(sorted(site.telling)) if site else ""))
    if not passes:
        return named
    core = core_of(case, verdict, passes, judge) if verdict.phase in (Phase.EXECUTE, Phase.COMPARE) else ""
    if verdict.outcome is Outcome.MISMATCH:
        return Signature.of(*named.components, ("core", core))
    rewrite = f"{core} by {' '.join(sorted(passes))}" if core else ""
    return Signature.of(
        *named.components, ("ill-typed", ill_typed(case, verdict, passes)), ("rewrite", rewrite)
    )


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
    case = replace(root.case, origin=origins(store, face.id)[0])
    provisional = get_signature(store, face.signature)
    failure = record_failure(store, case, root.verdict, release=face.release, sketched=provisional)
    return record_reduction(store, failure, reduced, verdict, named, document)


MOST_ALIKE = 2
"""How many exceptions of one symptom are reduced: it names a place in the compiler, most likely one bug."""
SEPARATOR = " | "
"""What stands between the parts of a symptom's text."""
PER_SYMPTOM = 8
"""So many wrong values or crashes of one symptom are as good as the first: their symptom says little."""
MOST_NOVEL = 40
"""How many of one symptom are reduced at most; wrong values of different bugs share their symptom."""


Rank: TypeAlias = tuple[bool, int, int, int]
"""Endless, how many of its symptom are done, operators, number: the least comes first."""


class Selection:
    """Chooses the next failure to reduce, and knows when there is none worth it.

    One that was named as it was met, by the words of a known issue, is not worth it once its bug is reduced.
    """

    def __init__(self, store: Store, target: str) -> None:
        self._store = store
        self._target = target
        self._sizes: dict[str, int] = {}

    def next(self, *, urgent: bool = False, without: Container[int] = ()) -> Failure | None:
        """The most promising un-reduced failure: of a rare symptom, small.

        Those whose numbers are in `without` are not asked for.

        What does not end comes last: each check and each proof takes all the time that a run may take.
        `urgent` asks only for the first of a symptom, which ends.
        """
        worth = self._ranked(without, urgent=urgent)
        return min(worth, key=lambda failure: worth[failure]) if worth else None

    def firsts(self) -> int:
        """How many symptoms an urgent one waits of."""
        return len(set(map(_kind, self._ranked((), urgent=True))))

    def _ranked(self, without: Container[int], *, urgent: bool) -> dict[Failure, Rank]:
        failures = [each for each in list_failures(self._store) if each.target == self._target]
        reduced = [each for each in failures if each.status == REDUCED]
        waiting = [each for each in failures if each.status == NEW and each.id not in without]
        by_symptom = Counter(_kind(each) for each in reduced)
        sampled = samples(self._store)
        ranked = {
            each: self._rank(each, [] if each.id in sampled else reduced, by_symptom[_kind(each)])
            for each in waiting
        }
        return {
            each: rank
            for each, rank in ranked.items()
            if rank is not None and not (urgent and (by_symptom[_kind(each)] or each.is_endless))
        }

    def _rank(self, failure: Failure, reduced: list[Failure], done: int) -> Rank | None:
        """The less, the more promising; None where enough of its symptom are `done`."""
        if any(each.cluster == failure.cluster for each in reduced) and self._is_named(failure):
            return None
        specific = failure.outcome == Outcome.EXCEPTION.value
        if done >= (MOST_ALIKE if specific else MOST_NOVEL):
            return None
        return failure.is_endless, done if specific else done // PER_SYMPTOM, self._size(failure), failure.id

    def _is_named(self, failure: Failure) -> bool:
        """Whether more names a failure before its reduction than its symptom."""
        return BEFORE_REDUCTION not in dict(get_signature(self._store, failure.signature).components)

    def _size(self, failure: Failure) -> int:
        if failure.case_id not in self._sizes:
            self._sizes[failure.case_id] = len(self._store.load_case(failure.case_id).measure.ops)
        return self._sizes[failure.case_id]


def waiting(store: Store) -> Iterator[Failure]:
    """Yield every un-reduced failure, each after the one before is reduced; what tells most comes first.

    One that is as new when the next is asked for was left, such as one that needs trust: it comes once.
    """
    left: set[int] = set()
    for target in sorted({failure.target for failure in list_failures(store, status=NEW)}):
        selection = Selection(store, target)
        while failure := selection.next(without=left):
            yield failure
            _note_left(store, failure, left)
    while rest := [each for each in list_failures(store, status=NEW) if each.id not in left]:
        yield rest[0]
        _note_left(store, rest[0], left)


def _note_left(store: Store, failure: Failure, left: set[int]) -> None:
    if get_failure(store, failure.id).status == NEW:
        left.add(failure.id)


def _kind(failure: Failure) -> str:
    """The symptom; of a crash only its signal, for one kernel has many places in a stripped library."""
    if failure.outcome == Outcome.CRASH.value:
        return SEPARATOR.join(failure.symptom.split(SEPARATOR)[:3])
    return failure.symptom
