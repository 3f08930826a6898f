"""Each record of a real bug is a valid model, by itself and within its host, and names a thread."""

import onnx
import pytest

from tests.bench.realbugs.bugs import BUGS
from tests.bench.realbugs.host import within_host


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_a_record_builds_valid_models_small_and_in_its_host(bug):
    model = bug.build()
    onnx.checker.check_model(model, full_check=True)
    assert {each.name for each in model.graph.input} == set(bug.inputs())
    if not bug.is_hosted:
        return
    hosted, inputs = within_host(bug)
    onnx.checker.check_model(hosted, full_check=True)
    assert len(hosted.graph.node) >= 200
    assert {each.name for each in hosted.graph.input} == set(inputs)


def test_records_differ_and_name_their_thread_and_what_was_wrong():
    assert len({bug.id for bug in BUGS}) == len(BUGS)
    for bug in BUGS:
        assert bug.address.rsplit("/", 1)[1].isdigit()
        assert all((bug.title, bug.culprits, bug.outcome))
        assert bug.last_good != bug.release != bug.first_fixed
