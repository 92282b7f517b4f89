# SPDX-License-Identifier: Apache-2.0
"""The child process of treadle.compile(max_seconds=, max_memory=): a task comes by standard input, the class and text of
an error (or None) go to standard output."""
import os
import pickle
import resource
import sys


def main() -> None:
    """Compiles what standard input describes, and answers on standard output."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed isn't the answer
    task = pickle.load(sys.stdin.buffer)
    path, memory = task.pop("path"), task.pop("memory")
    from treadle import model
    from treadle.error import Error

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    problem: tuple = (None, "")
    try:
        for plugin in task.pop("plugins"):
            model.load_plugin(plugin)
        model._export_serialised(path, **task)
    except Error as error:
        problem = (type(error).__name__, str(error))
    except MemoryError:
        problem = ("RuntimeError", "out of memory")
    pickle.dump(problem, answers)
    answers.flush()


if __name__ == "__main__":
    main()
