"""Pages and files for other tools: all bugs, one reduction, two cases side by side, SARIF.

In come bugs, reductions and cases; out come HTML, SVG and JSON. Commands, campaigns and reports call
it.
"""
