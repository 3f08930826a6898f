"""Names for failures: the symptom that the reducer keeps, the signature that names a bug, titles for people.

In come a verdict and its (reduced) case; out come a `Symptom`, a `Signature` with printable components,
and a title. The judge makes symptoms; the reducer and triage make signatures.
"""
