"""What brings a package that is missing: which extra of tensorcrux it belongs to."""

EXTRAS = {
    "apache-tvm": "tvm",
    "apache-tvm-ffi": "tvm",
    "tvm": "tvm",
    "tvm_ffi": "tvm",
    "torch": "torch",
    "z3-solver": "smt",
    "iced-x86": "native",
    "ray": "cluster",
}
"""The extra that brings a package, or a module of it; the others come with crux itself."""


def how_to_install(package: str) -> str:
    """The command that brings a package or module that is missing."""
    extra = EXTRAS.get(package)
    wanted = f"'.[{extra}]'" if extra else "."
    return f"in the repository: pip install --constraint constraints.txt {wanted}"
