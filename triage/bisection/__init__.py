"""First bad, last good and first fixed release of a package for one case.

In come a case and a range of releases; out comes what each release showed. `crux bisect` calls it. It
makes throw-away environments and asks the package index.
"""
