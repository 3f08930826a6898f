"""What is installed and works: targets, devices, the sandbox's layers, the database.

In comes nothing but the machine; out come findings with what to do about each, for `crux doctor`, and the
environment that a failure was seen in, for campaigns and reports.
"""
