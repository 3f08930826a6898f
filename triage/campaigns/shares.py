"""Who gets the next piece of a hunt's time: fuzzing or reducing, on which target, by what each has yielded.

Yield is in new bugs for CPU time; what is known earns nothing. Each choice keeps a floor, and what was long
ago counts less. The programs of a seed do not depend on this: only how far each campaign comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

FUZZING = "fuzzing"
"""How the names of choices begin that look for something new."""
FLOOR = 0.2
"""Of an equal share, what each choice gets at least."""
FADING = 0.97
"""What is left of the weight of costs and gains with every further decision."""
PRIOR_SECONDS = 30.0
"""CPU seconds after which a choice's own yield weighs as much as the mean of all."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of the scheduler, and its reason in words."""

    name: str
    why: str


@dataclass
class Shares:
    """The cost and gain of each choice; recent ones count most."""

    cpu: dict[str, float] = field(default_factory=dict)
    gained: dict[str, float] = field(default_factory=dict)
    whole: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, cpu: float, gained: float) -> None:
        """Note the CPU seconds that a choice has cost, and the new bugs that it has gained."""
        for table in (self.cpu, self.gained):
            for each in table:
                table[each] *= FADING
        self.cpu[name] = self.cpu.get(name, 0.0) + cpu
        self.gained[name] = self.gained.get(name, 0.0) + gained
        self.whole[name] = self.whole.get(name, 0.0) + cpu

    def choose(self, names: Sequence[str]) -> Choice:
        """The next one of these, the first of equals: one below its floor, else that of the best yield."""
        if len(names) == 1:
            return Choice(names[0], "nothing else is to do")
        spent = {each: self.cpu.get(each, 0.0) for each in names}
        total = sum(spent.values())
        least = min(names, key=lambda each: spent[each])
        if spent[least] < FLOOR * total / len(names) or not total:
            return Choice(least, f"it had {spent[least]:.0f} of {total:.0f} CPU seconds, below its floor")
        mean = sum(self.gained.get(each, 0.0) for each in names) / total
        yields = {
            each: (self.gained.get(each, 0.0) + mean * PRIOR_SECONDS) / (spent[each] + PRIOR_SECONDS)
            for each in names
        }
        best = max(names, key=lambda each: (yields[each], -spent[each]))
        told = ", ".join(f"{each} {3600 * yields[each]:.1f}" for each in names)
        return Choice(best, f"new bugs a CPU hour: {told}")
