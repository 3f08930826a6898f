"""One target's part of a hunt, and which target and job gets the next piece of its CPU time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from corpus.case import Case
from corpus.target import Target
from generators.fuzz import Tally, Tested, fuzz
from generators.language.emit import language_of
from generators.legality import Legality, known_refusals
from generators.mixture import PLAN, Plan, make_tests
from oracles.abilities import Backend
from oracles.backends import find_backend
from oracles.judge import Judge
from oracles.sandbox.executor import split
from triage.bugs.failures import record_failure
from triage.bugs.known import KnownIssue, known_at_once, load_known
from triage.campaigns.coverage_sync import CoverageSync, NativeCoverage, open_watch
from triage.campaigns.ray_testers import cluster_testers
from triage.campaigns.testers import Testers, open_testers
from triage.console.options import CaseOptions
from triage.environment import describe_environment
from triage.reductions.explained import Explainer, Selection
from triage.store.campaigns import (
    StrategyCost,
    finish_run,
    keep_refusals,
    load_refusals,
    start_run,
    update_run,
)
from triage.store.database import Store
from triage.store.failures import (
    Failure,
    count_again,
    count_alike,
    first_alike,
    get_failure,
)

MOST_ALIKE = 1000
"""Failing cases of one symptom that are kept; more would say nothing new, and fill the disk."""
COUNT_AGAIN_EVERY = 100
"""Failures of a symptom between two looks at how many the database has."""
SAVE_EVERY = 100
"""Tests between two notes of how far the run has come; a find is noted at once."""


@dataclass(frozen=True, slots=True)
class Step:
    """One test: the run's tally with it, the failure that it gave, if any, and its cost in CPU seconds."""

    tally: Tally
    failure: Failure | None
    cpu: float = 0.0


class Fuzzer:
    """One fuzzing run in a store, in one stretch or several; a context manager.

    Without `--seed` it goes on where the last run on this target stopped, with what was learned. A sequence
    of passes that the target asks for is every case's. `known` is a file of more known issues. With `native`
    the target's own code is watched; `cluster` is where Ray runs the tests.
    """

    def __init__(
        self,
        store: Store,
        options: CaseOptions,
        target: Target,
        command: str,
        plan: Plan = PLAN,
        *,
        known: str = "",
        native: bool = False,
        cluster: str = "",
    ) -> None:
        self.store, self.options = store, options
        self.target, given = split(target)
        environment, backend = describe_environment(target), find_backend(target.backend)
        self._package = backend.package
        self._installed = str(environment["packages"].get(self._package, ""))
        self.plan = replace(
            plan,
            passes_of=target.backend if plan.sequences else "",
            given=given,
            dialect=backend.dialect,
            legality=Legality(None, self._known_refusals(is_shard=plan.shard is not None)),
            beside=_beside(backend, plan),
        )
        self._known_file = known
        self._is_native = native
        self._cluster = cluster
        self.native: NativeCoverage | None = None
        self._teaching = CoverageSync(store, str(target), options.seed, plan.shard)
        self.seed = self._teaching.seed
        self.tally = Tally()
        self.run = start_run(store, command, str(target), self.seed)
        self._stack = ExitStack()
        self._testers = Testers([], "")
        self._under_way: Generator[Tested, None, None] | None = None
        self._alike: Counter[str] = Counter()

    def __enter__(self) -> Fuzzer:
        self._testers = self._stack.enter_context(
            self._open(self.options, self.target, self.plan, native=self._is_native)
        )
        self.plan = replace(self.plan, legality=self._testers.legality)
        if self._is_native:
            watch = self._stack.enter_context(closing(open_watch(self.target)))
            self.native = NativeCoverage(self.store, self.target, watch)
            if self._testers.begun:
                self.native.add(self._testers.begun)
        return self

    @property
    def _open(self) -> Callable[..., AbstractContextManager[Testers]]:
        """Testers on this machine, or on a cluster."""
        return partial(cluster_testers, self._cluster) if self._cluster else open_testers

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._under_way:
            self._under_way.close()  # what was interrupted teaches what it came to
        self._save()
        if self.native:
            self.native.save()
        finish_run(self.store, self.run, "done" if kind is None else "interrupted")
        self._stack.close()

    def stretch(self, *, tests: int | None = None, seconds: float | None = None) -> Iterator[Step]:
        """Test until the number of tests or the time is up."""
        self._under_way = fuzz(
            self._testers.all,
            seed=self.seed,
            tests=tests,
            seconds=seconds,
            teacher=self._teaching,
            shard=self.plan.shard,
        )
        for tested in self._under_way:
            self.tally = self.tally.add(tested)
            self.seed = tested.seed + 1
            if self.native and tested.met:
                self.native.add(tested.met)
            failure = self._keep(tested) if tested.verdict.is_bug else None
            if failure or self.tally.tests % SAVE_EVERY == 0:
                self._save()
            yield Step(self.tally, failure, tested.cpu)
        self._save()

    @property
    def coverage(self) -> int:
        """Count the pieces of coverage that the campaign has met."""
        return self._teaching.coverage

    @property
    def spent(self) -> Mapping[str, StrategyCost]:
        """Map each arm to its cost, in this run and earlier ones."""
        return self._teaching.costs

    def earned(self) -> Mapping[str, float]:
        """The part that each arm had in the symptoms that were met."""
        return self._teaching.earned()

    def _keep(self, tested: Tested) -> Failure:
        """Keep a failing case; the thousandth of a symptom is only counted, at the first that waits."""
        release = self._testers.release
        symptom = str(tested.verdict.symptom or "")
        self._alike[symptom] += 1
        if self._alike[symptom] % COUNT_AGAIN_EVERY == 1:
            self._alike[symptom] = count_alike(self.store, symptom, str(self.target)) + 1
        if self._alike[symptom] > MOST_ALIKE:
            first = first_alike(self.store, symptom, str(self.target))
            with self.store.transaction():
                count_again(self.store, first, release)
            return get_failure(self.store, first)
        case = replace(tested.case or self._made_again(tested.seed), target=self.target)
        named = known_at_once(self._known, case, tested.verdict, release)
        return record_failure(self.store, case, tested.verdict, run=self.run, release=release, sketched=named)

    @cached_property
    def _known(self) -> tuple[KnownIssue, ...]:
        """The known issues, which are read when there is a failure."""
        return load_known(self.store.path, self._known_file)

    def _made_again(self, seed: int) -> Case:
        """The case of a seed that was tested in another process."""
        (made,) = make_tests(self.plan, range(seed, seed + 1), self._teaching.lesson_of_seed(seed))
        return made.case

    def _known_refusals(self, *, is_shard: bool) -> frozenset[str]:
        """What the release is known to refuse; with a seed or a shard given, only the shipped list counts."""
        shipped = known_refusals(self._package, self._installed)
        is_fixed = self.options.seed is not None or is_shard
        return shipped if is_fixed else shipped | load_refusals(self.store, self._package, self._installed)

    def _save(self) -> None:
        self._teaching.keep()
        tally = self.tally
        if self.plan.legality.operators is not None:
            learned = {form for form in self._teaching.refusals() if "(" in form}
            keep_refusals(self.store, self._package, self._installed, learned)
        update_run(
            self.store,
            self.run,
            next_seed=self.seed,
            tests=tally.tests,
            valid=tally.valid,
            failures=tally.failures,
        )


def _beside(backend: Backend, plan: Plan) -> dict[str, Mapping[str, float]]:
    """The strategies of the other languages that a backend takes, as far as they keep to bounds."""
    formats = (name for graphs in backend.graphs for name in graphs.formats)
    languages = {name: language_of(name) for name in formats}
    return {
        name: each.strategies
        for name, each in languages.items()
        if each.strategies and (each.keeps_bounds or not plan.budget.is_limited)
    }


@dataclass
class TargetCampaign:
    """A campaign with what reduces its failures."""

    store: Store
    fuzzer: Fuzzer
    judge: Judge

    def __post_init__(self) -> None:
        self.target = str(self.fuzzer.target)
        self.label = str(self.fuzzer.target.without_setting("python"))
        self.explainer = Explainer(self.store, self.target, self.judge)
        self.selection = Selection(self.store, self.target)

    def waiting(self, *, urgent: bool) -> Failure | None:
        """The failure to reduce next; `urgent` ones are the first of their symptom, and end."""
        return self.selection.next(urgent=urgent)

    def firsts(self) -> int:
        """How many symptoms wait for their first reduction."""
        return self.selection.firsts()

    def cpu(self) -> float:
        """CPU seconds of this process and of the workers that reduce and report."""
        return time.process_time() + self.judge.cpu_seconds()


FUZZING = "fuzzing"
"""How the names of choices begin that look for something new."""
FLOOR = 0.2
"""Of an equal share, what each choice gets at least."""
FADING = 0.97
"""What is left of the weight of costs and gains with every further decision."""
PRIOR_SECONDS = 30.0
"""CPU seconds after which a choice's own yield weighs as much as the mean of all."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of the scheduler, and its reason in words."""

    name: str
    why: str


@dataclass
class CpuShares:
    """The cost and gain of each choice; recent ones count most."""

    cpu: dict[str, float] = field(default_factory=dict)
    gained: dict[str, float] = field(default_factory=dict)
    whole: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, cpu: float, gained: float) -> None:
        """Note the CPU seconds that a choice has cost, and the new bugs that it has gained."""
        for table in (self.cpu, self.gained):
            for each in table:
                table[each] *= FADING
        self.cpu[name] = self.cpu.get(name, 0.0) + cpu
        self.gained[name] = self.gained.get(name, 0.0) + gained
        self.whole[name] = self.whole.get(name, 0.0) + cpu

    def choose(self, names: Sequence[str]) -> Choice:
        """The next one of these, the first of equals: one below its floor, else that of the best yield."""
        if len(names) == 1:
            return Choice(names[0], "nothing else is to do")
        spent = {each: self.cpu.get(each, 0.0) for each in names}
        total = sum(spent.values())
        least = min(names, key=lambda each: spent[each])
        if spent[least] < FLOOR * total / len(names) or not total:
            return Choice(least, f"it had {spent[least]:.0f} of {total:.0f} CPU seconds, below its floor")
        mean = sum(self.gained.get(each, 0.0) for each in names) / total
        yields = {
            each: (self.gained.get(each, 0.0) + mean * PRIOR_SECONDS) / (spent[each] + PRIOR_SECONDS)
            for each in names
        }
        best = max(names, key=lambda each: (yields[each], -spent[each]))
        told = ", ".join(f"{each} {3600 * yields[each]:.1f}" for each in names)
        return Choice(best, f"new bugs a CPU hour: {told}")
