"""The types of `tensorcrux`, which is one module and so can say nothing of itself to a type checker."""

from corpus.case import Case as Case
from corpus.errors import UserError as UserError
from oracles.verdict import Outcome as Outcome
from oracles.verdict import Symptom as Symptom
from oracles.verdict import Verdict as Verdict
from reducer.api import DoesNotFail as DoesNotFail
from tensorcrux import testing as testing
from triage.public.calls import Reduction as Reduction
from triage.public.calls import check as check
from triage.public.calls import generate as generate
from triage.public.calls import reduce as reduce
from triage.public.calls import report as report
from triage.reports.report import Report as Report

__version__: str
