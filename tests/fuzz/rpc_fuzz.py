#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""libFuzzer over messages to an RPC session, with coverage of treadle.rpc: rpc_fuzz.py [libFuzzer's options] [corpus]."""
import os
import random
import sys
import tempfile

import atheris

with atheris.instrument_imports(include=["treadle.rpc"]):
    import rpc_messages



def mutate(data, max_size, seed):
    """Changes a frame and keeps its length right, three times of four: a wrong one ends the session at once."""
    chooser = random.Random(seed)
    parts = rpc_messages.split(data)
    if not parts or chooser.random() < 0.25:
        return atheris.Mutate(data, max_size)
    at, way = chooser.randrange(len(parts)), chooser.randrange(6)
    if way == 0:
        parts.insert(chooser.randrange(len(parts) + 1), parts[at])
    elif way == 1 and len(parts) > 1:
        del parts[at]
    else:
        parts[at] = atheris.Mutate(parts[at], max(len(parts[at]) + 16, 64))
    return rpc_messages.joined(parts)[:max_size]


def absolute(argument):
    """An option or a corpus as it is found from another folder."""
    name, equals, value = argument.partition("=")
    if name in ("-artifact_prefix", "-dict", "-exact_artifact_path"):
        return f"{name}={os.path.join(os.getcwd(), value)}"
    return argument if equals else os.path.abspath(argument) if os.path.exists(argument) else argument


if __name__ == "__main__":
    atheris.Setup([sys.argv[0], *map(absolute, sys.argv[1:])], rpc_messages.run, custom_mutator=mutate)
    os.chdir(tempfile.mkdtemp())
    atheris.Fuzz()
