"""Drawings and text that pages and reports share: graphs, curves, listings, marked text, the templates.

In come programs and numbers; out come SVG, HTML and plain lines. It reads no database.
"""
