"""`--private`: what the original said, replaced: names, strings, weight values, and the search for remains.

In comes a reduced case and its original; out comes a case that keeps the failure and none of the words
or values. `reducer/course.py` calls it after the search.
"""
