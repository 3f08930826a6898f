"""The types of `tensorcrux`, which is one module and so can say nothing of itself to a type checker."""

from tensorcrux import testing as testing
from triage.public.calls import check as check
from triage.public.calls import generate as generate
from triage.public.calls import reduce as reduce
from triage.public.calls import report as report
from triage.public.case import Case as Case
from triage.public.child import DoesNotFail as DoesNotFail
from triage.public.child import UserError as UserError
from triage.public.results import Reduction as Reduction
from triage.public.results import Report as Report
from triage.public.results import Verdict as Verdict

__version__: str
