"""Relax programs of TVM, to what generates them."""

from generators.language.emit import Language
from generators.relax.violations import violated
from generators.strategies.relax_mutate import mutant_of

LANGUAGE = Language(violated=violated, mutant=mutant_of)
