"""Moves that make a TIR module smaller (`TirSubject`); `reducer/moves` finds each file by its `MOVES`."""
