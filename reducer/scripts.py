"""A script reduced as Python text: fewer statements, blocks without their heads, plainer expressions.

A candidate counts if it still shows the same when it runs. Nothing is known of what the script means, so this
is for scripts of which no program of a framework could be kept.
"""

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from reducer.search import Items, answered, drop_one_at_a_time, drop_runs

BODIES = ("body", "orelse", "finalbody")
"""Where a statement holds others."""


MOST = 500
"""Checks of one reduction, each of which runs the script."""


class Exhausted(Exception):
    """No more checks may be made."""


@dataclass
class ScriptReducer:
    """Asks `shows` of candidates, each text once, at most `most` times; `text` is the smallest so far."""

    text: str
    shows: Callable[[str], bool]
    most: int = MOST
    checks: int = 0
    minimal: bool = False
    _known: dict[str, bool] = field(default_factory=dict)

    def run(self) -> str:
        """Reduce until a whole round changes nothing, or no check is left; the smallest text."""
        self.text = ast.unparse(ast.parse(self.text))
        self._known[self.text] = True
        try:
            while self._round():
                pass
            self.minimal = True
        except Exhausted:
            pass
        return self.text

    def _round(self) -> bool:
        before = self.text
        self._drop_statements()
        for edits in (_without_heads, _simpler):
            self._apply(edits)
        return self.text != before

    def _drop_statements(self) -> None:
        """Search for the fewest statements: runs of them first, then each alone."""
        for search in (drop_runs, drop_one_at_a_time):
            count = len(list(_statements(ast.parse(self.text))))
            answered(search(range(count)), partial(self._keeps, self.text))

    def _keeps(self, text: str, kept: Items) -> bool:
        """Whether these statements of a text still show it."""
        return self._try(_keeping(text, kept))

    def _apply(self, edits: Callable[[ast.Module], Iterator[Callable[[], None]]]) -> None:
        """Try each edit of the tree, the later ones in what the earlier ones have left."""
        at = 0
        while True:
            tree = ast.parse(self.text)
            edit = next((each for number, each in enumerate(edits(tree)) if number == at), None)
            if edit is None:
                return
            edit()
            before = self.text
            self._try(_unparsed(tree))
            at += self.text == before

    def _try(self, text: str) -> bool:
        """Whether a candidate still shows it; a smaller one that does is the best from now on."""
        if text not in self._known:
            if self.checks >= self.most:
                raise Exhausted
            self.checks += bool(text)
            self._known[text] = bool(text) and self.shows(text)
        if self._known[text] and (len(text), text) < (len(self.text), self.text):
            self.text = text
        return self._known[text]


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    """Yield every statement, an outer one before those within."""
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.stmt))


def _keeping(text: str, kept: Items) -> str:
    """The text with these statements and those around them; a block that is empty gets a `pass`."""
    tree = ast.parse(text)
    numbers = {node: at for at, node in enumerate(_statements(tree))}
    for node in list(ast.walk(tree)):
        for name in BODIES:
            held = getattr(node, name, None)
            if isinstance(held, list):
                left = [each for each in held if any(numbers.get(inner) in kept for inner in ast.walk(each))]  # type: ignore[call-overload]
                is_needed = name == "body" and node is not tree
                setattr(node, name, left or ([ast.Pass()] if is_needed else []))
    return _unparsed(tree)


def _unparsed(tree: ast.Module) -> str:
    """The text of a tree; empty where it is no Python."""
    try:
        text = ast.unparse(ast.fix_missing_locations(tree))
        ast.parse(text)
    except (SyntaxError, ValueError, AttributeError, TypeError):
        return ""
    return text


def _without_heads(tree: ast.Module) -> Iterator[Callable[[], None]]:
    """Edits that put the statements of a block in its place: of a loop, a branch, `with`, `try`."""
    for node in ast.walk(tree):
        for name in BODIES:
            held: Any = getattr(node, name, None)
            for at, each in enumerate(held if isinstance(held, list) else ()):
                if isinstance(each, ast.If | ast.For | ast.While | ast.With | ast.Try):
                    yield partial(_splice, held, at, each)


def _splice(held: list[ast.stmt], at: int, block: ast.stmt) -> None:
    first: list[ast.stmt] = []
    if isinstance(block, ast.For):
        value = ast.Call(ast.Name("next"), [ast.Call(ast.Name("iter"), [block.iter], [])], [])
        first = [ast.Assign([block.target], value)]
    held[at : at + 1] = [*first, *getattr(block, "body", [])]


def _simpler(tree: ast.Module) -> Iterator[Callable[[], None]]:
    """Edits: an argument or element goes, an operand stands for its expression, a number gets small."""
    for node in ast.walk(tree):
        for name, held in list(ast.iter_fields(node)):
            if isinstance(held, list) and held and isinstance(held[0], ast.expr | ast.keyword | ast.alias):
                for at in reversed(range(len(held))):
                    yield partial(held.__delitem__, at)
            if isinstance(held, ast.expr):
                for inner in _smaller(held):
                    yield partial(setattr, node, name, copy.deepcopy(inner))


def _smaller(node: ast.expr) -> Iterator[ast.expr]:
    """Yield the expressions that may stand in one's place."""
    if isinstance(node, ast.BinOp):
        yield from (node.left, node.right)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Call):
        yield from (each for each in (*node.args, *(word.value for word in node.keywords)))
        if isinstance(node.func, ast.Attribute):
            yield node.func.value
    elif isinstance(node, ast.Subscript | ast.Attribute | ast.Await | ast.Starred):
        yield node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value > 2:
        yield from (ast.Constant(each) for each in sorted({1, 2, node.value // 2}))
