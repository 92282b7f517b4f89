# SPDX-License-Identifier: Apache-2.0
"""A process that answers tasks, a line of JSON each: what it does may crash or hang, and the one that asks goes on."""
import json
import os
import subprocess
import sys
import tempfile
import threading

READY = "ready\n"


class WorkerFailed(Exception):
    """A worker ended before it asked for a task: no task is at fault, and the next one would end, too."""


def answer_tasks(answer):
    """The worker's side: writes answer(task), a dictionary, for each line of the input. What it needs is loaded before."""
    answers = os.fdopen(os.dup(1), "w")
    for stream in (1, 2):  # whatever else is printed isn't an answer
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    answers.write(READY)
    answers.flush()
    for line in sys.stdin:
        answers.write(json.dumps(answer(json.loads(line))) + "\n")
        answers.flush()


class Worker:
    """`command`, which calls answer_tasks; a new process after a crash or a hang (more than `seconds` for one task).
    fixed: what each task has besides."""

    def __init__(self, command, seconds, **fixed):
        self.command, self.seconds, self.fixed, self.process = command, seconds, fixed, None

    def _start(self):
        with tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, stderr=errors)
            timer = threading.Timer(self.seconds, process.kill)
            timer.start()
            ready = process.stdout.readline() == READY
            timer.cancel()
            if not ready:
                process.kill()
                status = process.wait()
                errors.seek(0)
                raise WorkerFailed(f"a worker can't start (exit {status}): {errors.read()[-2000:].strip()}")
        self.process = process

    def ask(self, **task):
        """Its answer; {"kind": "crash" or "hang"} where it didn't give one."""
        if self.process is None:
            self._start()
        process, hung = self.process, []
        timer = threading.Timer(self.seconds, lambda: (hung.append(1), process.kill()))
        timer.start()
        try:
            process.stdin.write(json.dumps({**task, **self.fixed}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        timer.cancel()
        if line:
            return json.loads(line)
        code = process.wait()
        self.process = None
        kind = "hang" if hung else "crash"
        return {"kind": kind, "text": f"exit {code}", "signature": [kind, str(code)], "ops": []}

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
