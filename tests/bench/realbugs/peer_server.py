"""Says of models, one after another, whether they fail as the first did; for any release's interpreter.

`python peer_server.py FOLDER MODEL`: reads paths from `FOLDER/question`, writes 1 or 0 to `FOLDER/answer`
and a line to `FOLDER/log`. `FOLDER/values.npz` holds what inputs are fed. Each run is a child of its own.
"""

import os
import re
import sys

import numpy as np
import onnxruntime

LEVELS = onnxruntime.GraphOptimizationLevel


def run(path, values, level):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {each.name: fed(each, values) for each in session.get_inputs()})


def fed(each, values):
    if each.name in values:
        return values[each.name]
    shape = [dim if isinstance(dim, int) else 1 for dim in each.shape]
    names = {"float": "float32", "double": "float64"}
    kind = each.type[7:-1]
    return np.ones(shape, names.get(kind, kind))


def words(path, values):
    """The kind of failure in a few words; "" if none shows."""
    try:
        plain = run(path, values, LEVELS.ORT_DISABLE_ALL)
    except Exception as error:
        return "plain " + stem(error)
    try:
        others = run(path, values, LEVELS.ORT_ENABLE_ALL)
    except Exception as error:
        return "optimised " + stem(error)
    alike = all(
        one.shape == other.shape and np.allclose(one, other, 1e-2, 1e-3, equal_nan=True)
        for one, other in zip(plain, others, strict=True)
        if one.dtype.kind in "fiub"
    )
    return "" if alike else "mismatch"


def stem(error):
    """An exception's text without the names and numbers that a smaller model changes."""
    text = re.sub(r"Name:'[^']*'|\([^()]*\)|'[^']*'|[^ ]*/[^ ]*|\d+", "", str(error))
    return f"{type(error).__name__} {' '.join(text.split())[:160]}"


def apart(path, values):
    """The words, by a child: a crash is told by its signal."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, words(path, values).encode()[:4000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    status = os.waitpid(child, 0)[1]
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else said


def main(folder, model):
    values = dict(np.load(f"{folder}/values.npz"))
    wanted = apart(model, values)
    while True:
        with open(f"{folder}/question") as question:
            path = question.readline().strip()
        said = apart(path if os.path.isabs(path) else f"{folder}/{path}", values)
        with open(f"{folder}/log", "a") as log:
            log.write(f"{said}\n")
        with open(f"{folder}/answer", "w") as answer:
            answer.write(f"{int(bool(wanted) and said == wanted)}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
