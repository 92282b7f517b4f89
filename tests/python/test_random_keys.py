# SPDX-License-Identifier: Apache-2.0
"""random.threefry_generate, threefry_split and uniform beside the vectors that Random123 publishes for threefry4x64-20, and
beside the generator written in Python's integers."""
import numpy as np
import pytest

import treadle as tvm
from treadle import relay

# kat_vectors of Random123 1.14: counter, key, result.
PUBLISHED = [
    ("0 0 0 0", "0 0 0 0", "09218ebde6c85537 55941f5266d86105 4bd25e16282434dc ee29ec846bd2e40b"),
    ("ffffffffffffffff " * 4, "ffffffffffffffff " * 4,
     "29c24097942bba1b 0371bbfb0f6f4e11 3c231ffa33f83a1c cd29113fde32d168"),
    ("243f6a8885a308d3 13198a2e03707344 a4093822299f31d0 082efa98ec4e6c89",
     "452821e638d01377 be5466cf34e90c6c be5466cf34e90c6c c0ac29b7c97c50dd",
     "a7e8fde591651bd9 baafd0c30138319b 84a5c1a729e685b9 901d406ccebc1ba4"),
]
MASK = 2**64 - 1
PLACE = 1 << 63


def words(text):
    return [int(word, 16) for word in text.split()]


def schedule(key):
    parity = 0x1BD11BDAA9FC1A22
    for word in key:
        parity ^= word
    return [*key, parity]


def cipher(key, counter):
    """As the operators: without the injection of the key after round 20."""
    rotations = [(14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32)]
    extended, x = schedule(key), list(counter)
    for r in range(20):
        if r % 4 == 0:
            x = [(v + extended[(r // 4 + i) % 5] + (r // 4 if i == 3 else 0)) & MASK for i, v in enumerate(x)]
        for a, turn in zip((0, 2), rotations[r % 8]):
            x[a] = (x[a] + x[a + 1]) & MASK
            x[a + 1] = x[a] ^ ((x[a + 1] << turn | x[a + 1] >> (64 - turn)) & MASK)
        x = [x[0], x[3], x[2], x[1]]
    return x


def run(call, *keys, target="llvm"):
    params = [relay.var(f"key{i}", shape=(10,), dtype="uint64") for i in range(len(keys))]
    body = call(*params)
    function = relay.Function(params, body.astuple() if hasattr(body, "astuple") else body)
    lib = relay.build(tvm.IRModule.from_expr(function), target)
    module = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu()))
    module.run(**{f"key{i}": np.array(key, "uint64") for i, key in enumerate(keys)})
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


@pytest.mark.parametrize("target", ["llvm", "c", "stackvm"])
@pytest.mark.parametrize("counter, key, expected", PUBLISHED)
def test_published_vectors(counter, key, expected, target):
    counter, key = words(counter), words(key)
    left, _ = run(relay.random.threefry_split, [*key, *counter, 0, 0], target=target)  # the path is full: a key of its own
    last = schedule(key)
    got = [(int(v) + last[(5 + i) % 5] + (5 if i == 3 else 0)) & MASK for i, v in enumerate(left[:4])]
    assert got == words(expected)


def test_the_cipher_of_this_file_gives_the_published_vectors():
    for counter, key, expected in PUBLISHED:
        extended = schedule(words(key))
        full = [(v + extended[(5 + i) % 5] + (5 if i == 3 else 0)) & MASK
                for i, v in enumerate(cipher(words(key), words(counter)))]
        assert full == words(expected)


def test_first_keys_take_seeds_of_256_bits():
    assert relay.random.threefry_key(1).data.numpy().tolist() == [1, 0, 0, 0, 0, 0, 0, 0, PLACE, 0]
    assert relay.random.threefry_key(3 << 64).data.numpy().tolist()[:2] == [0, 3]


@pytest.mark.parametrize("shape", [(1,), (2, 3), (4,), (3, 1, 7), (0,), ()])
def test_numbers_by_position(shape):
    key = [5, 6, 7, 8, PLACE, 0, 0, 40, PLACE >> 1, 0]
    count = int(np.prod(shape))
    expected = []
    for block in range(count // 4):  # all four words count
        expected += cipher(key[:4], [(word + block) & MASK for word in key[4:8]])
    if count % 4:
        expected += cipher(key[:4], [key[4], 0, 0, 40 + count // 4 * 4])[:count % 4]
    following, got = run(lambda k: relay.random.threefry_generate(k, shape), key)
    assert got.shape == shape and got.ravel().tolist() == expected
    assert following.tolist() == [*key[:7], 40 + -(-count // 4) * 4, *key[8:]]


def test_a_counter_at_its_end_turns_or_renews_the_key():
    draw = lambda k: relay.random.threefry_generate(k, (8,))  # noqa: E731
    following, _ = run(draw, [1, 2, 3, 4, 0, 0, 0, MASK - 4, 1, 0])
    assert following.tolist() == [1, 2, 3, 4, 1, 0, 0, 8, 0, PLACE]
    following, _ = run(draw, [1, 2, 3, 4, 9, 9, 0, MASK - 4, 0, 0])
    assert following.tolist() == [*cipher([1, 2, 3, 4], [MASK] * 4), 0, 0, 0, 8, PLACE, 0]
    following, _ = run(draw, [1, 2, 3, 4, 0, 0, 0, MASK - 9, PLACE, 0])  # room for nine
    assert following.tolist() == [1, 2, 3, 4, 0, 0, 0, MASK - 1, PLACE, 0]


def test_splits_extend_the_path_until_it_is_full():
    left, right = run(relay.random.threefry_split, [1, 2, 3, 4, 0, 0, 0, 5, 1, 0])
    assert left.tolist() == [1, 2, 3, 4, 0, 0, 0, 5, 0, PLACE] and right.tolist() == [1, 2, 3, 4, 1, 0, 0, 5, 0, PLACE]
    left, right = run(relay.random.threefry_split, [1, 2, 3, 4, 7, 8, 0, 5, 0, 0])
    renewed = cipher([1, 2, 3, 4], [7, 8, 0, 5])
    assert left.tolist() == [*renewed, 0, 0, 0, 0, PLACE >> 1, 0]
    assert right.tolist() == [*renewed, PLACE, 0, 0, 0, PLACE >> 1, 0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform(dtype):
    key = [11, 0, 0, 0, 0, 0, 0, 0, PLACE, 0]
    _, bits = run(lambda k: relay.random.threefry_generate(k, (4096,)), key)
    following, got = run(lambda k: relay.random.uniform(k, (64, 64), dtype, -2.0, 6.0), key)
    unit = (bits.astype("uint32") >> 9) / 2**23 if dtype == "float32" else (bits >> np.uint64(12)) / 2**52
    np.testing.assert_allclose(got.ravel(), unit * 8 - 2, rtol=0, atol=1e-6 if dtype == "float32" else 1e-15)
    assert got.dtype == dtype and got.min() >= -2 and got.max() < 6 and following[7] == 4096
    assert abs(got.mean() - 2) < 0.2 and abs(got.std() - 8 / np.sqrt(12)) < 0.1


def test_mistakes():
    short = relay.var("key", shape=(9,), dtype="uint64")
    with pytest.raises(tvm.Error, match="10 words"):
        relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([short], relay.random.threefry_split(short).astuple())))
    with pytest.raises(tvm.Error, match="float32 or float64"):
        run(lambda k: relay.random.uniform(k, (2,), "float16"), [0] * 10)
    with pytest.raises(tvm.Error, match="negative"):
        run(lambda k: relay.random.threefry_generate(k, (-2,)), [0] * 10)
