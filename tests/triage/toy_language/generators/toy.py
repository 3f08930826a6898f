"""The toy language to what generates programs: nothing but what every language has."""

from generators.language.emit import Language

LANGUAGE = Language()
