"""What is installed and works: targets, devices, the sandbox's layers, the database.

In come nothing but the machine; out come findings with what to do about each. `crux doctor` calls it.
"""
