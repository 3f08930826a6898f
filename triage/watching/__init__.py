"""What a new release of a package changes: known cases on it, beside what they showed before.

In come a package, its releases or Pythons, and cases: the regression corpus, folders, the bugs of a database.
Out comes for each release what is fixed, regressed and new. `crux watch` calls it; it asks the package index
and makes environments as `triage/bisection` does.
"""
