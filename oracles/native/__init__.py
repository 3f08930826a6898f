"""Coverage of a compiler's own machine code, on stock wheels: breakpoints at its libraries' basic blocks.

In comes the path of a library; out go its blocks with the functions that they belong to, and what each test
met of them. x86-64 only, with a C compiler and the extra `native` (iced-x86). The sandbox hands the
breakpoints to its zygote; campaigns and the coverage page read what was met. Nothing here runs a program.
"""
