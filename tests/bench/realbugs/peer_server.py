"""Says of models, one after another, whether they fail as the first did; for any release's interpreter.

`python peer_server.py FOLDER MODEL KIND OTHER`: reads paths from `FOLDER/question`, writes 1 or 0 to
`FOLDER/answer` and a line to `FOLDER/log`. `FOLDER/values.npz` holds what inputs are fed. Each run is a child
of its own. What two levels agree on is compared with the interpreter `OTHER`: values, or CPU time if `KIND`
is `perf`. `python peer_server.py FOLDER` is that interpreter: a path a line, the time of its run a line.
"""

import os
import re
import subprocess
import sys
import time

import numpy as np
import onnxruntime

LEVELS = onnxruntime.GraphOptimizationLevel


def run(path, values, level, times=0):
    """The outputs; with `times` the least CPU time of so many runs."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = {each.name: fed(each, values) for each in session.get_inputs()}
    if not times:
        return session.run(None, given)
    spent = []
    for _ in range(times):
        before = time.process_time()
        session.run(None, given)
        spent.append(time.process_time() - before)
    return min(spent)


def fed(each, values):
    if each.name in values:
        return values[each.name]
    shape = [dim if isinstance(dim, int) else 1 for dim in each.shape]
    names = {"float": "float32", "double": "float64"}
    kind = each.type[7:-1]
    return np.ones(shape, names.get(kind, kind))


def words(path, values, kind, other):
    """The kind of failure in a few words; "" if none shows."""
    if kind == "perf":
        return "slow" if run(path, values, LEVELS.ORT_ENABLE_ALL, TIMES) > 2 * other(path)[0] else ""
    try:
        plain = run(path, values, LEVELS.ORT_DISABLE_ALL)
    except Exception as error:
        return "plain " + stem(error)
    try:
        others = run(path, values, LEVELS.ORT_ENABLE_ALL)
    except Exception as error:
        return "optimised " + stem(error)
    if not alike(plain, others):
        return "mismatch"
    told = other(path)[1]
    return "" if told is None or alike(plain, told) else "both wrong"


def alike(some, others):
    return all(
        one.shape == other.shape and np.allclose(one, other, 1e-2, 1e-3, equal_nan=True)
        for one, other in zip(some, others, strict=True)
        if one.dtype.kind in "fiub"
    )


TIMES = 30


def asked_of(folder, python):
    """What asks another interpreter for its time and its outputs, None where it refuses the model."""
    process = subprocess.Popen(
        [python, __file__, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )

    def other(path):
        process.stdin.write(f"{os.path.abspath(path)}\n")
        process.stdin.flush()
        spent = float(process.stdout.readline())
        if spent < 0:
            return spent, None
        with np.load(f"{folder}/other.npz") as outputs:
            return spent, [outputs[name] for name in outputs.files]

    return other


def answer_lines(folder):
    """Be the other interpreter."""
    values = dict(np.load(f"{folder}/values.npz"))
    for line in sys.stdin:
        try:
            spent = run(line.strip(), values, LEVELS.ORT_ENABLE_ALL, TIMES)
            np.savez(f"{folder}/other.npz", *run(line.strip(), values, LEVELS.ORT_ENABLE_ALL))
        except Exception:  # it refuses the model, which it is not asked about
            spent = -1.0
        sys.stdout.write(f"{spent}\n")
        sys.stdout.flush()


def stem(error):
    """An exception's text without the names and numbers that a smaller model changes."""
    text = re.sub(r"Name:'[^']*'|\([^()]*\)|'[^']*'|[^ ]*/[^ ]*|\d+", "", str(error))
    return f"{type(error).__name__} {' '.join(text.split())[:160]}"


def apart(path, *about):
    """The words, by a child: a crash is told by its signal."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, words(path, *about).encode()[:4000])
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    status = os.waitpid(child, 0)[1]
    return f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else said


def main(folder, model, kind, python):
    about = dict(np.load(f"{folder}/values.npz")), kind, asked_of(folder, python)
    wanted = apart(model, *about)
    while True:
        with open(f"{folder}/question") as question:
            path = question.readline().strip()
        said = apart(path if os.path.isabs(path) else f"{folder}/{path}", *about)
        with open(f"{folder}/log", "a") as log:
            log.write(f"{said}\n")
        with open(f"{folder}/answer", "w") as answer:
            answer.write(f"{int(bool(wanted) and said == wanted)}\n")


if __name__ == "__main__":
    (main if len(sys.argv) > 2 else answer_lines)(*sys.argv[1:])
