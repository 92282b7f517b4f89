# SPDX-License-Identifier: Apache-2.0
"""Servers in other processes: what runs there, who gets in, and what happens when one is killed."""
import json
import os
import pathlib
import random
import signal
import sys
import threading
import time

import numpy as np
import pytest

import treadle as tvm
from treadle import relay, rpc, te
from treadle.contrib import graph_executor, utils
from treadle.rpc import session

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fuzz"))

import mutants  # noqa: E402
import rpc_messages  # noqa: E402

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(autouse=True, scope="module")
def token():
    previous = os.environ.get("TREADLE_RPC_TOKEN")
    os.environ["TREADLE_RPC_TOKEN"] = "of this test"
    yield "of this test"
    if previous is None:
        del os.environ["TREADLE_RPC_TOKEN"]
    else:
        os.environ["TREADLE_RPC_TOKEN"] = previous


@pytest.fixture(scope="module")
def server(token):
    with rpc.Server() as running:
        yield running


@pytest.fixture
def remote(server):
    session = rpc.connect(server.host, server.port)
    yield session
    session.close()


def add_one(n=1024):
    a = te.placeholder((n,), name="A")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
    return tvm.build(te.create_schedule(b.op), [a, b], target="llvm", name="add_one")


def uploaded(remote, name="lib.so"):
    temp = utils.tempdir()
    path = temp.relpath(name)
    add_one().export_library(path)
    remote.upload(path)
    return remote.load_module(name)


@pytest.mark.parametrize("name", ["lib.so", "lib.tar"])
def test_a_function_runs_there_on_tensors_there(remote, name):
    func = uploaded(remote, name)
    dev = remote.cpu()
    a = tvm.nd.array(np.arange(1024, dtype="float32"), dev)
    b = tvm.nd.empty((1024,), "float32", dev)
    func["add_one"](a, b)
    np.testing.assert_array_equal(b.numpy(), a.numpy() + 1)
    times = func.time_evaluator("add_one", dev, number=3, repeat=2)(a, b)
    assert len(times.results) == 2 and times.mean > 0


def test_a_model_runs_there(remote):
    x = relay.var("x", shape=(2, 8))
    w = np.random.default_rng(0).random((4, 8), "float32")
    lib = relay.build(relay.Function([x], relay.nn.relu(relay.nn.dense(x, relay.const(w)))), "llvm")
    temp = utils.tempdir()
    lib.export_library(temp.relpath("net.so"))
    remote.upload(temp.relpath("net.so"))
    dev = remote.cpu(0)
    module = graph_executor.GraphModule(remote.load_module("net.so")["default"](dev))
    value = np.random.default_rng(1).random((2, 8), "float32")
    module.set_input("x", tvm.nd.array(value))
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), np.maximum(value @ w.T, 0), rtol=1e-5)
    np.testing.assert_allclose(module.get_output(0, tvm.nd.empty((2, 4))).numpy(), np.maximum(value @ w.T, 0), rtol=1e-5)
    assert module.benchmark(dev, number=2, repeat=2).mean > 0


def test_files_and_registered_functions(remote):
    remote.upload(b"content", "a.txt")
    assert remote.download("a.txt") == b"content"
    assert remote.get_function("ir.IntImm") is not None
    for name in ("../a.txt", "/etc/passwd", ""):
        with pytest.raises(tvm.Error, match="isn't the name of a file"):
            remote.download(name)
    with pytest.raises(tvm.Error, match="the session has no file 'none.txt'$"):
        remote.download("none.txt")
    assert uploaded(remote).type_key == "rpc"


def test_errors_come_back_with_their_class(remote):
    func = uploaded(remote)
    small = tvm.nd.empty((3,), "float32", remote.cpu())
    with pytest.raises(tvm.Error, match="arg0.shape"):
        func["add_one"](small, small)
    with pytest.raises(AttributeError, match="nothing"):
        func["nothing"]
    with pytest.raises(tvm.Error, match="tensor of this process"):
        func["add_one"](tvm.nd.empty((1024,)), small)
    assert remote.cpu().exist  # the session goes on


def test_another_token_is_refused(server):
    with pytest.raises(rpc.RPCError, match="token"):
        rpc.connect(server.host, server.port, token="another")
    rpc.connect(server.host, server.port).close()  # others still get in


def test_a_session_ends_after_its_time(server):
    session = rpc.connect(server.host, server.port, session_timeout=1)
    session.cpu()
    time.sleep(1.5)
    with pytest.raises(rpc.RPCError, match="lasted 1 s"):
        session.upload(b"x", "x")


def test_a_killed_server_is_an_error():
    victim = rpc.Server()
    session = rpc.connect(victim.host, victim.port)
    children = [int(pid) for pid in open(f"/proc/{victim.proc.pid}/task/{victim.proc.pid}/children").read().split()]
    for pid in [victim.proc.pid, *children]:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(rpc.RPCError, match="ended at request 'upload'"):
        session.upload(b"x", "x")
    with pytest.raises(rpc.RPCError, match="ended"):
        session.upload(b"x", "x")  # and stays one
    with pytest.raises(rpc.RPCError):
        rpc.connect(victim.host, victim.port)


@pytest.fixture
def tracker():
    with rpc.tracker.Tracker(port=9190, port_end=9290) as running:
        yield running


def waits_for(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_tracker_gives_each_server_to_one_client_at_a_time(tracker):
    with rpc.Server(key="board", tracker_addr=(tracker.host, tracker.port)):
        queue = rpc.connect_tracker(tracker.host, tracker.port)
        waits_for(lambda: queue.summary()["queue_info"].get("board", {}).get("free") == 1)
        assert "board" in queue.text_summary()
        first = queue.request("board", session_timeout=30)
        order = []

        def ask(priority):
            session = queue.request("board", priority=priority)
            order.append(priority)
            session.close()

        threads = []
        for priority in (1, 5):
            threads.append(threading.Thread(target=ask, args=(priority,)))
            threads[-1].start()
            waits_for(lambda: queue.summary()["queue_info"]["board"]["pending"] == len(threads))
        assert first.cpu().exist and not order
        first.close()
        for thread in threads:
            thread.join(30)
        assert order == [5, 1]
        assert queue.request_and_run("board", lambda session: session.cpu().exist)


def test_a_server_that_is_gone_is_forgotten(tracker):
    queue = rpc.connect_tracker(tracker.host, tracker.port)
    with rpc.Server(key="board", tracker_addr=(tracker.host, tracker.port)):
        waits_for(lambda: queue.summary()["server_info"])
    waits_for(lambda: not queue.summary()["server_info"])


def test_a_session_with_this_process():
    session = rpc.LocalSession()
    func = uploaded(session)
    a = tvm.nd.array(np.ones(1024, "float32"), session.cpu())
    b = tvm.nd.empty((1024,), "float32", session.cpu())
    func["add_one"](a, b)
    assert b.numpy()[0] == 2


def test_odd_requests_end_in_errors_or_answers(tmp_path):
    """Requests with fields of any kind, as a client with the token could send them."""
    choose = random.Random(0)
    operations = sorted(name[3:] for name in dir(session.Session) if name.startswith("do_") and name != "do_time")
    fields = ["name", "args", "id", "imports", "other", "format", "shape", "dtype", "device", "tensor", "ids"]

    def value(depth=0):
        kinds = [None, True, -1, 0, 2**31, 2**63, -2**63, 1e308, "", "../x", "lib.so", "float32", "cpu"]
        if depth < 3 and choose.random() < 0.4:
            return choose.choice([[value(depth + 1) for _ in range(choose.randrange(3))],
                                  {"t": choose.choice(["plain", "bytes", "list", "device", "tensor", "ref", "other"]),
                                   "v": value(depth + 1), "blob": choose.choice([0, -1, 5]), "id": choose.randrange(4),
                                   "shape": choose.choice([[2], [-1], [2**40, 2**40], [0], "a"]),
                                   "dtype": choose.choice(["float32", "int8", "other", "float32x4"])}])
        return choose.choice(kinds)

    state = session.Session(tmp_path)
    state._refer(tvm.nd.array(np.ones(3, "float32")))
    answered = 0
    for _ in range(600):
        request = {"op": choose.choice(operations), **{f: value() for f in fields if choose.random() < 0.8}}
        request.update({"id": 1} if choose.random() < 0.5 else {})
        try:
            state.handle(json.loads(json.dumps(request)), [b"abc", bytes(12)])
            answered += 1
        except Exception as error:  # pylint: disable=broad-except
            assert type(error).__name__ not in ("InternalError", "SystemError"), (request, error)
    assert answered > 20


def test_anything_that_a_client_sends_ends_in_answers_or_the_session():
    """The harness of tests/fuzz/rpc_fuzz.py on its seeds, whole and damaged. Headers that weren't JSON, or whose number of
    blobs was a list, left the loop as errors of Python."""
    choose = random.Random(1)
    for name, data in rpc_messages.seeds():
        rpc_messages.run(data)
        for _ in range(60):
            rpc_messages.run(mutants.of_bytes(choose, data))
    for header in (b"", b"\xff\xfe", b"[1]", b"null", b'{"op":"free","blobs":[]}', b'{"blobs":true,"op":1}', b'{"blobs":1e3}',
                   b"[" * 100000, b'{"op":"free","ids":3}', b'{"op":["x"]}', b'{"op":"__init__"}', b'{"op":"call","id":[]}',
                   b'{"op":"call","id":1,"args":' + b'[{"t":"list","v":' * 400 + b"[]" + b"}]" * 400 + b"}"):
        rpc_messages.run(len(header).to_bytes(4, "big") + header)
    rpc_messages.run(b"\xff\xff\xff\xff" + b"\x7f" * 8)  # a frame of 2^63 bytes


def test_a_session_of_no_time_is_refused():
    for timeout in ("x", [1], -1, 2**40, 1e300):
        link = rpc_messages.link_of(rpc_messages.frames({"op": "hello", "timeout": timeout}))
        with pytest.raises(rpc.RPCError, match="asked for a session of"):
            session.serve(link)


def test_processes_that_begin_at_once_agree_on_the_token(tmp_path, monkeypatch):
    from treadle.rpc import _wire

    monkeypatch.delenv("TREADLE_RPC_TOKEN")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    make, others = _wire.secrets.token_hex, []

    def while_another_begins(size):
        if not others:
            others.append(None)
            others[0] = _wire.find_token()
        return make(size)

    monkeypatch.setattr(_wire.secrets, "token_hex", while_another_begins)
    assert _wire.find_token() == others[0] and len(others[0]) == 64
    assert [path.name for path in (tmp_path / "treadle").iterdir()] == ["rpc_token"]


def pids(running):
    children = open(f"/proc/{running.proc.pid}/task/{running.proc.pid}/children").read().split()
    return [running.proc.pid, *map(int, children)]


def test_a_server_that_stands_still_is_an_error_after_the_session_time():
    """As when its machine froze, or lost its network: no end of the connection is sent."""
    victim = rpc.Server()
    session = rpc.connect(victim.host, victim.port, session_timeout=2)
    session.cpu()
    stopped = pids(victim)
    try:
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        start = time.monotonic()
        with pytest.raises(rpc.RPCError, match="ended at request 'upload'.*lasted 2 s"):
            session.upload(b"x" * (1 << 26), "x")
        with pytest.raises(rpc.RPCError, match="ended"):
            session.upload(b"x", "x")
        assert time.monotonic() - start < 5
        start = time.monotonic()
        with pytest.raises(rpc.RPCError, match="doesn't answer"):
            rpc.connect(victim.host, victim.port, session_timeout=2)
        assert time.monotonic() - start < 20
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGKILL)


def test_a_server_killed_while_it_computes_is_an_error():
    """The client waits for a long call when the kill comes."""
    victim = rpc.Server()
    session = rpc.connect(victim.host, victim.port, session_timeout=60)
    func = uploaded(session)
    a = tvm.nd.array(np.ones(1024, "float32"), session.cpu())
    b = tvm.nd.empty((1024,), "float32", session.cpu())
    ends = []

    def wait():
        try:
            func.time_evaluator("add_one", session.cpu(), number=1, repeat=1, min_repeat_ms=30000)(a, b)
        except rpc.RPCError as error:
            ends.append(str(error))

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.5)
    for pid in pids(victim):
        os.kill(pid, signal.SIGKILL)
    thread.join(20)
    assert len(ends) == 1 and "ended at request 'time'" in ends[0]


def test_keys_that_no_server_has_end_in_errors_after_the_session_time(tracker):
    with rpc.Server(key="board", tracker_addr=(tracker.host, tracker.port)):
        queue = rpc.connect_tracker(tracker.host, tracker.port)
        waits_for(lambda: queue.summary()["server_info"])
        start = time.monotonic()
        with pytest.raises(rpc.RPCError, match=r"no server for 'bord' was free within 1 s.*did you mean 'board'"):
            queue.request("bord", session_timeout=1)
        with pytest.raises(rpc.RPCError, match="there are servers for: board"):
            queue.request_and_run("xyz", lambda session: None, session_timeout=1)
        first = queue.request("board", session_timeout=30)
        with pytest.raises(rpc.RPCError, match="knows 1 of that key, with which others have sessions"):
            queue.request("board", session_timeout=1)
        assert time.monotonic() - start < 10
        first.close()
        waits_for(lambda: queue.summary()["queue_info"]["board"]["pending"] == 0)  # nobody waits in vain
        queue.request("board", session_timeout=5).close()


def test_who_waits_without_a_limit_for_an_unknown_key_is_told(tracker, monkeypatch):
    monkeypatch.setattr("treadle.rpc.client._SOON", 0.3)
    queue = rpc.connect_tracker(tracker.host, tracker.port)
    got = []
    with pytest.warns(UserWarning, match="waiting for a server for 'late': the tracker knows none of that key"):
        thread = threading.Thread(target=lambda: got.append(queue.request("late")))
        thread.start()
        time.sleep(1)
        with rpc.Server(key="late", tracker_addr=(tracker.host, tracker.port)):
            thread.join(30)
            assert got[0].cpu().exist
            got[0].close()
