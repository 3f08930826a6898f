"""Issue reports: a draft with its evidence, the project's form, a checklist, the bundle.

In comes a reduced failure; out comes a folder and a zip that a maintainer can act on. `crux report` and
`crux hunt` call it.
"""
