"""What a report claims about a case, in terms of plain runs: actual, expected, against what.

In come a case and its verdict; out comes a typed claim that reports, scripts and pages say in their own
form.
"""
