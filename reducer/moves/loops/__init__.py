"""Moves on modules of TVM's loops (`LoopSubject`), one idea a file; `reducer/moves` finds them by their
`MOVES`.
"""
