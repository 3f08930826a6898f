"""The terminal: options that commands share, tables, JSON, progress.

In come results; out comes what a person or a program reads. Only commands, and long work that shows
progress, call it. Nothing here imports a framework.
"""
