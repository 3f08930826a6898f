"""The four functions of the library, each what the command of its name does."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

from .case import Case, case_of, write_inputs
from .child import UserError, ask
from .results import Check, Reduction, Report, Verdict

if TYPE_CHECKING:
    import onnx

Model: TypeAlias = "str | Path | bytes | onnx.ModelProto | Case | Any"
"""A path (or an id of the database), the bytes of an ONNX model, the model, a case; or an `nn.Module` or
`ExportedProgram` of the torch that the caller has imported."""

Inputs: TypeAlias = Mapping[str, Any] | Sequence[Any] | Path | None
"""Values by input name, positional ones of a torch module, an .npz file, or None: made from the seed."""


class Settings(TypedDict, total=False):
    """Settings that all functions take by name; the command line's options of these names say the same.

    `timeout` is in CPU seconds and `memory` in MB, both for one run. `tolerance` is `auto`: crux chooses,
    unless `rtol` or `atol` are given. `trust` lets files that run code be opened; `db` is the database that
    ids refer to.
    """

    seed: int
    jobs: int
    timeout: float
    memory: int
    tolerance: str
    rtol: float
    atol: float
    oracles: str
    accept_invalid: bool
    trust: bool
    db: Path


def check(
    model: Model, inputs: Inputs = None, *, target: str | None = None, **settings: Unpack[Settings]
) -> Verdict:
    """Judge a model on a target, `ort` where none is named.

    Raises `UserError` where the model, the inputs or the target cannot be used. A compiler's failure is no
    exception: `is_bug` of the verdict says whether there is a bug, `title` is one line about it.

    >>> import numpy, onnx
    >>> model = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["": 17]>
    ...     half (double[3] x) => (double[3] y) <double low = {-1.0}> {
    ...         r = Relu(x)
    ...         y = Clip(r, low)
    ...     }''')
    >>> verdict = check(model, {"x": numpy.array([-1.0, 0.5, 2.0])}, target="ort")
    >>> verdict.is_bug, verdict.outcome
    (True, 'exception')
    """
    with _handed_over(model, inputs, target, settings) as words:
        return Verdict.of(ask("check", **words))


def reduce(
    model: Model,
    inputs: Inputs = None,
    *,
    target: str | None = None,
    out: Path | None = None,
    command: str | None = None,
    minutes: float | None = None,
    max_checks: int | None = None,
    private: bool = False,
    **settings: Unpack[Settings],
) -> Reduction:
    """Shrink a failing model to the smallest case with the same symptom.

    `out` keeps the case folder and the journal, so that an interrupted reduction resumes. `command` is a
    shell command that decides instead of a target; `{}` in it is the candidate. `private` leaves nothing of
    the original's names and values. Raises `DoesNotFail` where the failure does not show, `UserError` as
    `check` does.

    >>> import onnx
    >>> model = onnx.parser.parse_model('''<ir_version: 8, opset_import: ["": 17]>
    ...     half (double[3] x) => (double[3] y) <double low = {-1.0}> {
    ...         a = Abs(x)
    ...         r = Relu(a)
    ...         c = Clip(r, low)
    ...         y = Neg(c)
    ...     }''')
    >>> small = reduce(model, target="ort")
    >>> small.is_minimal, small.nodes, small.case.measure.ops, small.passes
    (True, (4, 2), ('Relu', 'Clip'), ('FuseReluClip',))
    """
    from tempfile import TemporaryDirectory

    scratch = TemporaryDirectory(prefix="crux-") if out is None else None
    folder = Path(scratch.name) / "reduction" if scratch else Path(out or "")
    request = {"minutes": minutes, "max_checks": max_checks, "check": command, "private": private}
    with _handed_over(model, inputs, target, settings) as words:
        done = ask("reduce", **words, out=folder, request=request)
    return _reduction(done, case_of(done["case"], folder, scratch))


def _reduction(done: Any, case: Case) -> Reduction:
    verdict = Verdict.of(done["verdict"]) if done["verdict"] else None
    lists = {"nodes": tuple(done["nodes"]), "passes": tuple(done["passes"])}
    return Reduction(**{**done, "case": case, "verdict": verdict, **lists})


def report(
    model: Model,
    out: Path,
    inputs: Inputs = None,
    *,
    target: str | None = None,
    project: str = "",
    known: Path | None = None,
    **settings: Unpack[Settings],
) -> Report:
    """Write a bundle for one failing case into the folder `out`, and its zip beside it.

    Give it what `reduce` left: a report of a large model helps nobody. `project` is whose form is filled,
    that of the target unless it is named; `known` a file of known issues. Raises `UserError` where the case
    shows no bug.
    """
    with _handed_over(model, inputs, target, settings) as words:
        made = ask("report", **words, out=out, project=project, known=known)
    places = {"folder": Path(made["folder"]), "archive": Path(made["archive"])}
    checks = tuple(Check(**each) for each in made["checks"])
    return Report(**{**made, **places, "checks": checks})


def generate(
    count: int, *, ops: int = 10, seed: int = 0, strategy: str = "random", trust: bool = False
) -> Iterator[Case]:
    """Make `count` valid programs of `ops` nodes; a seed gives the same program on any machine.

    >>> [case.measure.nodes for case in generate(3, ops=4, seed=2)]
    [4, 4, 4]
    """
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="crux-made-") as name:
        for number in range(seed, seed + count):
            made = ask("generate", out=name, ops=ops, seed=number, strategy=strategy, trust=trust)
            yield case_of(made, Path(name) / f"seed-{number}")


@contextmanager
def _handed_over(
    model: Model, inputs: Inputs, target: str | None, settings: Settings
) -> Iterator[dict[str, Any]]:
    """The words of a request that name a model; what lies in memory lies in files until the end."""
    from tempfile import TemporaryDirectory

    if unknown := sorted(settings.keys() - Settings.__annotations__.keys()):
        raise TypeError(f"{unknown[0]!r} is no setting; there are {', '.join(Settings.__annotations__)}")
    with TemporaryDirectory(prefix="crux-model-") as name:
        word, is_trusted = _written(model, inputs, Path(name))
        yield {
            "model": word,
            "is_own": word.startswith(name),
            "inputs": _file_of(inputs, Path(name)),
            "target": target,
            "settings": {**settings, "trust": True} if is_trusted else settings,
        }


def _written(model: Model, inputs: Inputs, folder: Path) -> tuple[str, bool]:
    """The word that names the model on the command line, and whether opening it needs trust."""
    if isinstance(model, str | Path):
        return str(model), False
    if isinstance(model, Case):
        model.save(folder / "case")
        return str(folder / "case"), False
    found = next(filter(None, (write(model, inputs, folder) for write in WRITERS)), None)
    if found is None:
        raise UserError(
            f"a {type(model).__name__} is no model; give a path, bytes, an onnx.ModelProto, a Case"
            " or a torch module"
        )
    return found


def _file_of(inputs: Inputs, folder: Path) -> Path | None:
    """The inputs as the .npz that `--inputs` takes; a module's were exported with it."""
    if isinstance(inputs, str | Path):
        return Path(inputs)
    if not isinstance(inputs, Mapping):
        return None
    path = folder / "inputs.npz"
    write_inputs(path, inputs)
    return path


def write_onnx(model: Any, inputs: Any, folder: Path) -> tuple[str, bool] | None:
    """An `onnx.ModelProto`, or its bytes."""
    onnx: Any = sys.modules.get("onnx")
    if isinstance(model, bytes):
        content = model
    elif onnx is not None and isinstance(model, onnx.ModelProto):
        content = model.SerializeToString(deterministic=True)
    else:
        return None
    (folder / "model.onnx").write_bytes(content)
    return str(folder / "model.onnx"), False


def write_torch(model: Any, inputs: Any, folder: Path) -> tuple[str, bool] | None:
    """A module, exported with its positional inputs, or an exported program."""
    torch: Any = sys.modules.get("torch")
    is_module = torch is not None and isinstance(model, torch.nn.Module)
    if type(model).__module__.split(".")[0] != "torch" and not is_module:
        return None
    if is_module:
        if inputs is None or isinstance(inputs, Mapping | Path | str):
            raise UserError("a torch module needs the tensors that it is called with: give them as a tuple")
        model = torch.export.export(model, tuple(inputs))
    path = folder / "model.pt2"
    torch.export.save(model, path)
    return str(path), True


WRITERS = (write_torch, write_onnx)
"""Each gives a file's path in the folder and whether opening it needs trust; None for another's object."""
