"""The journal of a reduction: every verdict asked for, so that a killed run resumes where it was."""

import hashlib
import json
import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias

from corpus.errors import UserError
from corpus.outputs import must_be_free
from corpus.reading import Fields, held_to, load_json, read_bytes, write_fresh

NAME = "journal.jsonl"
VERSION = 1
SUM = "sum"
MOST_BYTES = 1 << 30

ENTRY = Fields({"case": str, "interesting": bool, "symptom": str, "witness": [[int]], "is_unsteady": bool})
RunEvidence: TypeAlias = tuple[tuple[int, int], ...]


class OtherReduction(UserError):
    """The folder holds the journal of another case, of other options, or of another release's moves."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The predicate's answer to one candidate: whether it is interesting, and what the run showed.

    `witness` tells where a wrong value was seen: pairs of a dim and a position along it. `is_unsteady` says
    that a first run showed something else.
    """

    interesting: bool
    symptom: str = ""
    witness: RunEvidence = ()
    is_unsteady: bool = False


class Journal:
    """An append-only file of JSON lines: a header that names the case and the settings, then answers.

    Each answer carries a checksum over itself and the header: a line that a kill cut short, or that is not
    what was written, is dropped and asked again. Search is a pure function of the answers, so replaying them
    gives the identical result for any number of workers.
    """

    def __init__(self, path: Path, header: Mapping[str, Any]) -> None:
        self.path = path
        self.answers: dict[str, Answer] = {}
        self.replayed = 0
        self._header = json.dumps({"version": VERSION, **header}, sort_keys=True)
        self._file: IO[str] | None = None
        self._lock = threading.Lock()

    def open(self, names: Iterable[str] = ()) -> None:
        """Read what is there; where that is nothing, no file of these `names` may be in the folder either.

        Raises `OtherReduction` for another case or settings, else `UserError`.
        """
        lines = self._read()
        if lines and lines[0] != self._header:
            raise OtherReduction(
                f"{self.path.parent}: holds the reduction of another case or with other options; "
                "choose another folder with -o, or remove this one"
            )
        for line in lines[1:]:
            if (entry := self._checked(line)) is not None:
                self.answers[entry["case"]] = _answer(entry)
        self.replayed = len(self.answers)
        if not lines:
            must_be_free(self.path.parent, [NAME, *names])
        self._rewrite(self.answers.items())
        self._file = self.path.open("a", encoding="utf-8")

    def add(self, case_id: str, answer: Answer) -> None:
        """Keep an answer; one write, so that a kill leaves whole lines but for the last."""
        with self._lock:
            self.answers[case_id] = answer
            if self._file is not None:
                self._file.write(self._line(case_id, answer))
                self._file.flush()

    def finish(self, used: Iterable[str]) -> None:
        """Leave only the answers that the search used, in its order: the same bytes for any run."""
        self._rewrite((key, self.answers[key]) for key in used)

    def forget(self) -> None:
        """Drop every answer: what they led to is not so, and everything is to be asked again."""
        with self._lock:
            self.answers.clear()
            self.replayed = 0
            if self._file is not None:
                self._file.close()
                self._rewrite(())
                self._file = self.path.open("a", encoding="utf-8")

    def discard(self) -> None:
        """Leave nothing behind, nor the folder if it held nothing else."""
        self.close()
        self.path.unlink(missing_ok=True)
        with suppress(OSError):
            self.path.parent.rmdir()

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self) -> list[str]:
        if not os.path.lexists(self.path):
            return []
        advice = "remove it, or choose another folder with -o"
        text = read_bytes(self.path, MOST_BYTES, advice).decode(errors="replace")
        return text[: text.rfind("\n") + 1].splitlines()

    def _rewrite(self, answers: Iterable[tuple[str, Answer]]) -> None:
        lines = [self._header + "\n", *(self._line(*entry) for entry in answers)]
        write_fresh(self.path, "".join(lines))

    def _line(self, case_id: str, answer: Answer) -> str:
        entry = {"case": case_id, **asdict(answer)}
        return json.dumps({**entry, SUM: self._sum(entry)}) + "\n"

    def _checked(self, line: str) -> dict[str, Any] | None:
        """A line's entry; None where it is not, byte for byte, what was written."""
        try:
            entry: dict[str, Any] = load_json(line)
            is_whole = entry.pop(SUM) == self._sum(entry)
            return held_to(entry, ENTRY, "entry") if is_whole else None
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, UserError):
            return None

    def _sum(self, entry: Mapping[str, Any]) -> str:
        text = self._header + json.dumps(entry, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _answer(entry: Mapping[str, Any]) -> Answer:
    witness = tuple((int(dim), int(position)) for dim, position in entry["witness"])
    return Answer(entry["interesting"], entry["symptom"], witness, entry["is_unsteady"])
