"""Statements inserted, deleted, replaced and wrapped."""

from __future__ import annotations

from corpus.tir.tree import Body, For, If, Stmt
from corpus.tir.values import Const, Var
from generators.language.random_source import RandomSource
from generators.tir.sites import Site, allocates_nothing, at_site, defines_nothing


@at_site("delete a statement", Stmt, allocates_nothing)
def delete_statement(draws: RandomSource, site: Site[Stmt]) -> Body:
    """Leave out a statement that declares no memory."""
    return ()


@at_site("insert a statement", Stmt)
def insert_statement(draws: RandomSource, site: Site[Stmt]) -> Body:
    """Grow a statement from the names visible at a place, and insert it there."""
    made, _ = site.maker.some(site.frame, draws.between(1, 6), 1)
    return (*made, site.stmt)


@at_site("replace a statement", Stmt, defines_nothing)
def replace_statement(draws: RandomSource, site: Site[Stmt]) -> Body:
    """Grow a statement in place of one that defines no name."""
    made, _ = site.maker.some(site.frame, draws.between(1, 6), 1)
    return made


@at_site("wrap in a branch", Stmt, defines_nothing)
def wrap_in_branch(draws: RandomSource, site: Site[Stmt]) -> Body:
    """Put a condition around a statement, sometimes with another statement as its else."""
    other = (site.maker.store(site.frame),) if draws.chance(0.4) else None
    return (If(site.maker.truth(site.frame), (site.stmt,), other),)


@at_site("wrap in a loop", Stmt, defines_nothing)
def wrap_in_loop(draws: RandomSource, site: Site[Stmt]) -> Body:
    """Run a statement one to three times."""
    kind = draws.pick(("serial", "serial", "unrolled"))
    var = Var(site.maker.names.fresh("i"))
    return (For(var, Const(0), Const(draws.between(1, 3)), kind, (site.stmt,)),)
