"""The forms in which projects take issues: which template, which packages to name, where they are filed."""

from __future__ import annotations

from dataclasses import dataclass

from corpus.errors import UserError


@dataclass(frozen=True)
class Form:
    """`packages` are those whose versions the project asks for, its own first."""

    name: str
    template: str
    packages: tuple[str, ...]
    issues: str


FORMS = {
    form.name: form
    for form in (
        Form(
            "onnxruntime",
            "issue_onnxruntime.md.j2",
            ("onnxruntime", "onnxruntime-gpu", "ort-nightly", "onnx", "numpy"),
            "https://github.com/microsoft/onnxruntime/issues",
        ),
        Form(
            "tvm",
            "issue_tvm.md.j2",
            ("apache-tvm", "apache-tvm-ffi", "onnx", "numpy"),
            "https://github.com/apache/tvm/issues",
        ),
        Form(
            "pytorch",
            "issue_pytorch.md.j2",
            ("torch", "triton", "numpy"),
            "https://github.com/pytorch/pytorch/issues",
        ),
        Form("general", "issue_general.md.j2", ("onnx", "numpy"), ""),
    )
}
OF_BACKENDS = {"ort": "onnxruntime", "tvm": "tvm", "torch": "pytorch", "inductor": "pytorch"}


def find_form(name: str, backend: str) -> Form:
    """The form of that name, or that of the backend's project where none is asked for."""
    if name and name not in FORMS:
        raise UserError(f"--for {name}: known are {', '.join(FORMS)}")
    return FORMS[name or OF_BACKENDS.get(backend, "general")]
