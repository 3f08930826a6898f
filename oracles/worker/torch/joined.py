"""The C++ kernels of one compiled graph in one call of the compiler: by far most of a call is its start.

Inductor compiles each kernel by itself, with the bindings that Python calls it by. Here each has a namespace
of its own in one file, and its bindings are a module of their own in one library.
"""

import re
from contextlib import contextmanager
from typing import Any, Iterator, Sequence, Tuple  # noqa: UP035 (Python 3.8)

from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codecache import CppPythonBindingsCodeCache as Bindings

Source = Tuple[Sequence[str], str]  # noqa: UP006 (Python 3.8)
"""The types of a kernel's arguments, and its text, in which it is called `kernel`."""

INCLUDE = re.compile(r"^[ \t]*#[ \t]*include.*$", re.MULTILINE)


class Waiting:
    """Stands for a kernel until all of its graph's are known."""

    def __init__(self, number: int) -> None:
        self.number = number


@contextmanager
def joined() -> Iterator[None]:
    """Compile the kernels of each graph together, if it is compiled within this context."""
    make, wait = AsyncCompile.cpp_pybinding, AsyncCompile.wait
    sources: list[Source] = []

    def noted(compiler: Any, types: Sequence[str], text: str) -> Waiting:
        sources.append((types, text))
        return Waiting(len(sources) - 1)

    def waited(compiler: Any, scope: dict[str, Any]) -> None:
        waiting = {name: value for name, value in scope.items() if isinstance(value, Waiting)}
        texts, sources[:] = tuple(sources), []
        kernels = _compiled(texts) if waiting else []
        scope.update({name: kernels[value.number] for name, value in waiting.items()})
        wait(compiler, scope)

    AsyncCompile.cpp_pybinding, AsyncCompile.wait = noted, waited
    try:
        yield
    finally:
        AsyncCompile.cpp_pybinding, AsyncCompile.wait = make, wait


def _compiled(sources: Sequence[Source]) -> list[Any]:
    """The kernels as Python calls them. Raises torch's CppCompileError."""
    names = [Bindings.entry_function + (f"_{number}" if number else "") for number in range(len(sources))]
    text = "".join(_in_a_namespace(name, *source) for name, source in zip(names, sources))  # noqa: B905
    includes = dict.fromkeys(INCLUDE.findall(text))
    library = Bindings.load("#define PY_SSIZE_T_CLEAN\n" + "\n".join(includes) + INCLUDE.sub("", text))
    found = []
    for name in names:
        entry: Any = type(name, (Bindings,), {"entry_function": name})
        found.append(getattr(entry._load_library_inner(library.__file__, library.key), name))
    return found


def _in_a_namespace(name: str, types: Sequence[str], text: str) -> str:
    """A kernel under a name of its own, with its bindings."""
    arguments = (
        f"parse_arg<{kind.replace('const ', '')}>(args, {place})" for place, kind in enumerate(types)
    )
    bindings = Bindings.suffix_template.format(
        arg_len=len(types),
        call_entry_func=Bindings.call_entry_function.format(", ".join(arguments)),
        entry_func=name,
        extra_parse_arg="",
    )
    called = Bindings.entry_function
    is_other = name != called
    renamed, back = (f"#define {called} {name}", f"#undef {called}") if is_other else ("", "")
    return f"\n{renamed}\nnamespace of_{name} {{\n{text}\n{bindings}\n}}\n{back}\n"
