"""What crux knows of compilers' optimisers: the ways to run them, their passes, and how a log tells of these.

In come targets and runs; out come configurations and names of passes. The files of `oracles/backends` put it
into their records, and no other room calls it but for a name or two; nothing here runs in a worker.
"""
