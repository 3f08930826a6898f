"""Failures as raw text: tracebacks, native stacks, messages of compilers, and the templates that they share.

In comes text; out come exception leaf, site, frames, and a message template without names and numbers.
Symptoms, signatures and `crux triage traces` use it. It runs nothing.
"""
