import json
import random

import pytest

from corpus.errors import UserError
from oracles.naming import Signature
from oracles.verdict import Outcome
from tests.helpers.commands import crux
from tests.helpers.failing import division_crash, healthy, verdict
from triage.bugs.failures import record_failure, record_reduction
from triage.clustering.grouping import mark, merge, rename, split
from triage.clustering.similarity import BEFORE_REDUCTION, MERGE
from triage.clustering.why import related_clusters, why
from triage.store.clusters import clusters, get_cluster, signatures_of
from triage.store.database import Store
from triage.store.failures import get_failure
from triage.store.names import live_cluster

ONE = Signature.of(("op", "one"))
FACTS = {"nodes_before": 9, "nodes_after": 1, "checks": 5, "minimal": True}


def found(store, number, message="boom"):
    return record_failure(store, healthy(number), verdict(message))


def reduced(store, failure, number, signature, title="reduced"):
    return record_reduction(store, failure, healthy(number), verdict(title), signature, FACTS)


def test_the_first_reduced_failure_names_the_cluster_that_its_symptom_opened(store):
    failure = found(store, 1)
    after = reduced(store, failure, 101, ONE, "smaller")
    assert after.cluster == failure.cluster
    assert (after.status, after.signature) == ("reduced", ONE.digest)
    assert clusters(store)[0].title == "[Add] Fail: smaller at level all, not none"


def test_two_symptoms_with_one_signature_are_one_cluster_in_the_end(store):
    first, second = found(store, 1, "one text"), found(store, 2, "another text")
    one, two = reduced(store, first, 101, ONE), reduced(store, second, 102, ONE)
    assert one.cluster == two.cluster
    assert [cluster.name for cluster in clusters(store)] == ["C0001"]
    assert [cluster.status for cluster in clusters(store, merged=True)] == ["new", "merged"]
    moved = store.row("SELECT document FROM events WHERE kind = 'moved'")
    assert json.loads(moved["document"])["source"] == "C0002"


def test_the_id_of_an_emptied_cluster_is_never_used_again(store):
    reduced(store, found(store, 1, "one text"), 101, ONE)
    reduced(store, found(store, 2, "another text"), 102, ONE)
    assert found(store, 3, "a third text").cluster_name == "C0003"


# Clusters by similarity as failures come in, and what persons decide about them


TEXT = "dimension mismatch between the first and the second operand of the broadcast"


def ort(message, op="", **components):
    facts = {"op": op, "message": message, **components}
    return Signature.of(("backend", "ort"), ("outcome", "exception"), *facts.items())


def add(store, number, signature, message="boom", facts=FACTS, outcome=Outcome.EXCEPTION, release=""):
    failure = record_failure(store, healthy(number), verdict(message, outcome), release=release)
    return record_reduction(
        store, failure, healthy(number + 10_000), verdict(message, outcome), signature, facts
    )


def text(*changed):
    return " ".join(f"w{at}" if at in changed else word for at, word in enumerate(TEXT.split()))


PLAIN, NEAR, BRIDGE, FAR = ort(text(), "Add"), ort(text(1), "Add"), ort(text(1, 2), "Add"), ort("no", "Add")


def test_a_similar_signature_joins_the_cluster_and_says_how_near_it_is(store):
    one, two = add(store, 1, PLAIN), add(store, 2, NEAR)
    assert one.cluster == two.cluster
    alias = signatures_of(store, one.cluster)[-1]
    assert (alias.signature.digest, alias.how) == (NEAR.digest, "similarity")
    assert 0.75 <= alias.score < 1
    assert PLAIN.digest in alias.why


def families(seed=3):
    """Signatures in families of variants of one text each, with the number of times each shows."""
    random_ = random.Random(seed)
    vocabulary = [f"word{n}" for n in range(400)]
    for family in range(12):
        words = random_.sample(vocabulary, 14)
        for _ in range(random_.randint(1, 7)):
            changed = list(words)
            for _ in range(random_.randint(0, 6)):
                changed[random_.randrange(14)] = random_.choice("abcdefgh")
            yield ort(" ".join(changed), f"Op{family}")


def ingest(folder, order):
    with Store(folder / "crux.db") as store:
        for number, signature in order:
            add(store, number, signature, f"symptom {number % 5}")
        return {number: get_failure(store, at + 1).cluster for at, (number, _) in enumerate(order)}


def test_another_order_puts_the_same_failures_together(tmp_path):
    items, found = list(enumerate(families())), []
    for turn in range(3):
        folder = tmp_path / str(turn)
        folder.mkdir()
        clusters_of = ingest(folder, items)
        found.append(
            {frozenset(at for at in clusters_of if clusters_of[at] == one) for one in clusters_of.values()}
        )
        random.Random(turn).shuffle(items)
    assert 12 <= len(found[0]) < len(items)
    assert found[0] == found[1] == found[2]


def test_a_signature_between_two_clusters_merges_them_into_the_older(store):
    one, two = ort(text(), "Add"), ort(text(1, 2, 4, 5, 6), "Add")
    first, second = add(store, 1, one), add(store, 2, two)
    assert first.cluster != second.cluster
    add(store, 3, ort(text(1, 2), "Add"))
    assert get_failure(store, second.id).cluster == first.cluster
    assert [cluster.status for cluster in clusters(store, merged=True)].count("merged") >= 1
    assert live_cluster(store, second.cluster_name) == first.cluster


def test_a_merge_by_command_holds_against_later_similarity(store):
    one, two = add(store, 1, PLAIN), add(store, 2, FAR)
    merge(store, one.cluster, two.cluster)
    assert get_failure(store, two.id).cluster == one.cluster
    later = add(store, 3, NEAR)
    assert {get_failure(store, number).cluster for number in (1, 2)} == {one.cluster}
    assert live_cluster(store, two.cluster_name) == one.cluster
    assert later.cluster != two.cluster


def test_a_split_by_command_holds_against_later_similarity(store):
    one, two = add(store, 1, PLAIN), add(store, 2, NEAR)
    made = split(store, one.cluster, NEAR.digest[:6])
    assert get_failure(store, two.id).cluster == made.id != one.cluster
    add(store, 3, BRIDGE)
    assert get_failure(store, one.id).cluster != get_failure(store, two.id).cluster


def test_what_cannot_be_split_or_merged_is_the_users_mistake(store):
    one = add(store, 1, PLAIN)
    with pytest.raises(UserError, match="nothing to split"):
        split(store, one.cluster, PLAIN.digest)
    with pytest.raises(UserError, match="not one signature"):
        split(store, one.cluster, "zzz")
    with pytest.raises(UserError, match="already one"):
        merge(store, one.cluster, one.cluster)


@pytest.mark.parametrize(
    ("state", "value", "note"),
    [("fixed", "1.32.0", "1.32.0"), ("wontfix", "", ""), ("duplicate", "C0002", "C0002")],
)
def test_a_mark_is_kept_and_logged(store, state, value, note):
    one, _ = add(store, 1, PLAIN), add(store, 2, FAR)
    marked = mark(store, one.cluster, state, value)
    assert (marked.status, marked.note) == (state, note)
    event = store.row("SELECT document FROM events WHERE kind = 'marked'")
    assert json.loads(event["document"]) == {"old": "new", "new": state, "note": note}


@pytest.mark.parametrize(
    ("state", "value"),
    [("filed", ""), ("wontfix", "x"), ("closed", ""), ("duplicate", "C0001"), ("duplicate", "C9")],
)
def test_a_mark_that_says_too_little_or_too_much_is_refused(store, state, value):
    one = add(store, 1, PLAIN)
    with pytest.raises(UserError):
        mark(store, one.cluster, state, value)
    assert get_cluster(store, one.cluster).status == "new"


@pytest.mark.parametrize(
    ("release", "status"), [("1.31.9", "fixed"), ("1.32.0", "regressed"), ("", "regressed")]
)
def test_a_fixed_cluster_that_shows_again_has_regressed(store, release, status):
    one = add(store, 1, PLAIN)
    mark(store, one.cluster, "fixed", "1.32.0")
    record_failure(store, healthy(1), verdict("boom"), release=release)
    assert get_cluster(store, one.cluster).status == status


def test_a_title_given_by_command_stays(store):
    failure = record_failure(store, healthy(1), verdict("boom"))
    rename(store, failure.cluster, "My  own title")
    record_reduction(store, failure, healthy(2), verdict("smaller"), PLAIN, FACTS)
    assert get_cluster(store, failure.cluster).title == "My own title"


def test_why_names_what_agrees_what_differs_and_the_cuts(store):
    one, two, three = add(store, 1, PLAIN), add(store, 2, NEAR), add(store, 3, ort(text(), "Mul"))
    told = why(store, one.name, two.name)
    assert told["together"]
    assert "together in C0001" in told["words"][0]
    assert told["distance"] <= MERGE
    assert sum(each.startswith("Another ") for each in told["words"]) == 1
    apart = why(store, one.name, three.cluster_name)
    assert not apart["together"]
    assert "apart: another operator, 0.35 from each other" in apart["words"][0]
    assert "Another operator, which adds 0.35: Add / Mul." in apart["words"]
    assert apart["words"][-1].startswith("Offered as related")


def test_one_rewrite_that_shows_as_exception_and_wrong_result_is_related_and_not_merged(store):
    facts = {**FACTS, "passes": ["Pad_Fusion"], "ops": ["Pad", "MaxPool"]}
    wrong = Signature.of(
        ("backend", "ort"), ("outcome", "mismatch"), ("passes", "Pad_Fusion"), ("ops", "Pad MaxPool")
    )
    one = add(store, 1, PLAIN, facts=facts)
    two = add(store, 2, wrong, "wrong", {**facts, "ops": ["MaxPool", "Pad"]}, Outcome.MISMATCH)
    three = add(store, 3, FAR, "third", {**facts, "passes": ["Another"]})
    assert one.cluster != two.cluster
    related = related_clusters(store)
    assert related[one.cluster] == {two.cluster_name: "Pad_Fusion on MaxPool Pad, seen as mismatch"}
    assert set(related[two.cluster]) == {one.cluster_name}
    assert three.cluster not in related


def test_the_commands_decide_and_explain(tmp_path):
    with Store(tmp_path / "crux.db") as store:
        add(store, 1, PLAIN)
        add(store, 2, FAR)
    done = crux(tmp_path, "triage", "mark", "C0001", "fixed", "1.32.0", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["status"] == "fixed"
    assert (
        json.loads(crux(tmp_path, "triage", "why", "C0001", "F00002", "--json").stdout)["together"] is False
    )
    assert crux(tmp_path, "triage", "rename", "C0002", "Mine").returncode == 0
    assert crux(tmp_path, "triage", "merge", "C0001", "C0002").returncode == 0
    (only,) = json.loads(crux(tmp_path, "triage", "--json").stdout)
    assert (only["id"], only["status"], len(only["failures"])) == ("C0001", "fixed", 2)
    assert crux(tmp_path, "triage", "split", "C0001", FAR.digest).returncode == 0
    bad = crux(tmp_path, "triage", "mark", "C0001", "nonsense")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert "no such mark" in bad.stderr


def sketched(number, ops, kind="value"):
    facts = {"backend": "ort", "outcome": "mismatch", "passes": "Fusion", "ops": ops, "kind": kind}
    return Signature.of(("basis", BEFORE_REDUCTION), *facts.items())


def test_before_reduction_likes_are_together_by_their_sketches_and_others_are_apart(store):
    patterns = ("Pad:float32 MaxPool:float32", "Pad:float64 MaxPool:float64", "MatMul:float32")
    one, two, other = (
        record_failure(store, healthy(number), verdict(), sketched=sketched(number, ops))
        for number, ops in enumerate(patterns)
    )
    assert get_failure(store, one.id).cluster == get_failure(store, two.id).cluster != other.cluster


def test_a_reduced_signature_takes_the_cluster_of_its_sketch_and_is_never_compared_with_sketches(store):
    one = record_failure(store, healthy(1), verdict(), sketched=sketched(1, "Pad:float32 MaxPool:float32"))
    two = record_failure(store, healthy(2), verdict(), sketched=sketched(2, "Pad:float64 MaxPool:float64"))
    wrong = Signature.of(*(part for part in sketched(1, "Exp:int8").components if part[0] != "basis"))
    first = record_reduction(store, one, healthy(11), verdict(), wrong, FACTS)
    assert first.cluster == one.cluster
    second = record_reduction(store, two, healthy(12), verdict(), ort("another thing"), FACTS)
    assert second.cluster != first.cluster
    assert {each.how for each in signatures_of(store, first.cluster)} == {"signature", "symptom"}


def test_checking_with_a_database_sketches_what_fails(tmp_path):
    for number in (1, 2):
        division_crash(extra_nodes=5 * number).save(tmp_path / f"case{number}")
    done = crux(tmp_path, "check", "case1", "case2", "--db", "crux.db", "--json")
    assert done.returncode == 1, done.stderr
    with Store(tmp_path / "crux.db") as store:
        (cluster,) = clusters(store)
        (alias,) = signatures_of(store, cluster.id)
    facts = dict(alias.signature.components)
    assert (facts["ops"], facts["basis"], alias.how) == ("Div", BEFORE_REDUCTION, "symptom")
