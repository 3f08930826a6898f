"""Moves on modules of TVM's loops (`TirSubject`), one idea a file; `reducer/moves` finds them by their
`MOVES`.
"""
