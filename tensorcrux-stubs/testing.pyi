"""The types of `tensorcrux.testing`."""

from triage.public.testing import Disagreement as Disagreement
from triage.public.testing import assert_agrees as assert_agrees
