# SPDX-License-Identifier: Apache-2.0
"""Attention on AMX's tile registers: what it computes, written out and by the instructions themselves."""
import json
import subprocess

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import treadle
from test_attention import attention_model, definition
from test_precision import round_bf16, snr
from test_tiles import PROGRAM, TILES, WRITTEN_OUT, instructions, needs_x86, run  # noqa: F401

BF16 = {"relay.precision": "bf16"}
CASES = [
    dict(batch=1, heads=2, queries=32, keys=32, size=32, values=16),  # all of them whole tiles
    dict(batch=2, heads=2, queries=24, keys=64, size=64, values=64, mask=(1, 1, 1, 64)),
    dict(batch=1, heads=3, queries=49, keys=49, size=32, values=32),  # panels of 16 keys, an even number of them
    dict(batch=1, heads=1, queries=19, keys=33, size=80, values=80, mask=(1, 1, 19, 33)),  # an odd number of panels
    dict(batch=2, heads=1, queries=17, keys=7, size=15, values=5, mask=(2, 1, 17, 7)),
    dict(batch=1, heads=2, queries=130, keys=100, size=128, values=24, transposed=False),
    dict(batch=1, heads=2, queries=33, keys=40, size=12, values=20, mask=(1, 2, 33, 40), scale=("Mul", 0.25)),
]


def inputs_of(shapes, seed=1):
    rng = np.random.default_rng(seed)
    return {name: round_bf16(rng.standard_normal(shape).astype(np.float32)) for name, shape in shapes.items()}


def check(case, x, y, least=48):
    """Of operands that are bfloat16 already only the exponentials are rounded."""
    assert snr(definition(x, case.get("transposed", True), case.get("scale", ("Div", 3.0))), y) > least


@pytest.mark.parametrize("case", CASES)
def test_equals_its_definition(case):
    model, shapes = attention_model(**case)
    x = inputs_of(shapes)
    check(case, x, run(model, x, WRITTEN_OUT, **BF16))


@needs_x86
@pytest.mark.parametrize("case", CASES)
def test_instructions(case, instructions):  # noqa: F811
    model, shapes = attention_model(**case)
    x = inputs_of(shapes)
    before = 0 if instructions is None else instructions()
    check(case, x, run(model, x, TILES, **BF16))
    assert instructions is None or instructions() > before


@pytest.mark.parametrize("case", [
    dict(batch="b", heads=3, queries=49, keys=49, size=32, values=32),
    dict(batch="b", heads=2, queries=20, keys=37, size=64, values=48, mask=("b", 1, 1, 37)),
    dict(batch="b", heads=1, queries=32, keys=64, size=20, values=64, mask=(1, 1, 32, 64)),
])
@pytest.mark.parametrize("target", [WRITTEN_OUT, pytest.param(TILES, marks=needs_x86)])
def test_samples_that_a_run_shows(case, target, instructions):  # noqa: F811
    model, shapes = attention_model(**case)
    compiled = treadle.compile(model, target=target, precision="bf16")
    assert '"kernel":"attention.tiles"' in compiled.explain()
    for batch in (1, 3):
        x = inputs_of({name: [batch if d == "b" else d for d in shape] for name, shape in shapes.items()})
        check(case, x, compiled.run(None, x)[0])


OPEN = [
    dict(batch=1, heads=2, queries="m", keys="n", size=64, values=64, mask=(1, 1, "m", "n")),
    dict(batch="b", heads=3, queries="m", keys="n", size=32, values=48, mask=("b", 1, 1, "n")),
    dict(batch=2, heads=1, queries="m", keys="n", size=33, values=17, transposed=False, scale=("Mul", 0.25)),
    dict(batch=1, heads=2, queries="m", keys=37, size=20, values=40, mask=(1, 1, "m", 37)),
    dict(batch=1, heads=2, queries=40, keys="n", size=64, values=16, mask=(1, 1, 40, "n")),
]


@pytest.mark.parametrize("case", OPEN)
@pytest.mark.parametrize("target", [WRITTEN_OUT, pytest.param(TILES, marks=needs_x86)])
def test_queries_and_keys_that_a_run_shows(case, target, instructions):  # noqa: F811
    model, shapes = attention_model(**case)
    compiled = treadle.compile(model, target=target, precision="bf16")
    assert '"kernel":"attention.packing_tiles"' in compiled.explain()
    for m, n in [(1, 9), (3, 1), (16, 32), (31, 33), (65, 64), (100, 130)]:
        sizes = {"b": 2, "m": m, "n": n}
        x = inputs_of({name: [sizes.get(d, d) for d in shape] for name, shape in shapes.items()})
        check(case, x, compiled.run(None, x)[0])


def lowered(case, tmp_path):
    onnx.save(attention_model(**case)[0], tmp_path / "m.onnx")
    command = [PROGRAM, "compile", tmp_path / "m.onnx", "-o", tmp_path / "m.so", "--target", WRITTEN_OUT, "--precision",
               "bf16", "--dump", "tir", "--dump-dir", tmp_path / "d"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    return next((tmp_path / "d").glob("tir.*")).read_text()


def test_one_query_reads_keys_and_values_in_place(tmp_path):
    kernels = lowered(OPEN[0], tmp_path).split("primfn")[1:]
    assert len(kernels) == 2
    assert [("attention_dots" in k, "attention_key_words" in k) for k in kernels] in ([(True, False), (False, True)],
                                                                                    [(False, True), (True, False)])


def test_rows_of_scores_do_not_share_sets_of_the_cache(tmp_path):
    """Rows of 1024 scores lay 4 KiB apart, so that those of a tile were stored to one set of the L1 cache."""
    case = dict(batch=1, heads=1, queries=32, keys=1024, size=32, values=32)
    assert "attention_products[1040" in lowered(case, tmp_path)


@pytest.mark.parametrize("target", [WRITTEN_OUT, pytest.param(TILES, marks=needs_x86)])
def test_no_keys_that_a_run_shows(target, instructions):  # noqa: F811
    model, shapes = attention_model(**OPEN[0])
    sizes = {"m": 5, "n": 0}
    x = inputs_of({name: [sizes.get(d, d) for d in shape] for name, shape in shapes.items()})
    y = treadle.compile(model, target=target, precision="bf16").run(None, x)[0]
    np.testing.assert_array_equal(y, np.zeros((1, 2, 5, 64)))


def test_it_is_the_kernel_of_machines_with_tiles():
    model, _ = attention_model(**CASES[1])
    explained = treadle.compile(model, target=TILES, pass_config=BF16).explain()
    assert '"kernel":"attention.tiles"' in explained


@pytest.mark.parametrize("queries, m_block", [(32, 16), (32, 32), (37, 13), (48, 12), (40, 2), (70, 70)])
def test_blocks_of_queries(queries, m_block):
    case = dict(batch=1, heads=2, queries=queries, keys=40, size=32, values=32, mask=(1, 1, queries, 40))
    model, shapes = attention_model(**case)
    problem = {"type": "schedule.AttentionProblem", "batch": 2, "m": queries, "n": 40, "s": 32, "d": 32,
               "dtype": "bfloat16", "n_block": 0, "key_block": 0}
    packed = {**problem, "m": -(-queries // m_block) * m_block, "n": 64, "n_block": 16}
    plan = {"type": "schedule.TileAttentionPlan", "m_block": m_block}
    records = "\n".join(json.dumps({"problem": p, "kernel": "attention.tiles", "plan": plan}) for p in (problem, packed))
    options = {**BF16, "schedule.plans": records}
    assert f'"m_block":{m_block}' in treadle.compile(model, target=WRITTEN_OUT, pass_config=options).explain()
    x = inputs_of(shapes)
    check(case, x, run(model, x, WRITTEN_OUT, **options))


def test_queries_that_see_no_key():
    """They give NaN, as without tiles, and others see none of the keys that are masked for them."""
    case = dict(batch=1, heads=1, queries=20, keys=40, size=32, values=16, mask=(1, 1, 20, 40))
    model, shapes = attention_model(**case)
    x = inputs_of(shapes)
    seen = np.random.default_rng(2).random((20, 40)) < 0.3
    seen[:, 39] = True
    seen[7] = False
    x["mask"] = np.where(seen, 0, -np.inf).astype(np.float32)[None, None]
    x["v"][0, 0, 13] = 1e30
    seen[:, 13] = False
    x["mask"][0, 0, :, 13] = -np.inf
    y = run(model, x, WRITTEN_OUT, **BF16)
    assert np.isnan(y[0, 0, 7]).all()
    rest = np.delete(np.arange(20), 7)
    with np.errstate(invalid="ignore"):
        expected = definition(x, True, ("Div", 3.0))
    assert snr(expected[:, :, rest], y[:, :, rest]) > 48


def test_scores_far_apart():
    case = dict(batch=1, heads=1, queries=16, keys=32, size=32, values=16, mask=(1, 1, 16, 32))
    model, shapes = attention_model(**case)
    x = inputs_of(shapes)
    x["mask"] = np.resize(np.float32([-1e4, 1e30, 3e38, -3e38, 0, 80, 160, 240, -90, -180, 50]), (1, 1, 16, 32))
    check(case, x, run(model, x, WRITTEN_OUT, **BF16))


def test_models_in_bfloat16():
    case = CASES[2]
    model, shapes = attention_model(**case)
    for value in [*model.graph.input, *model.graph.output]:
        value.type.tensor_type.elem_type = 16
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(3, ml_dtypes.bfloat16), tensor.name))
    x = inputs_of(shapes)
    y = run(model, {name: value.astype(ml_dtypes.bfloat16) for name, value in x.items()}, WRITTEN_OUT)
    check(case, x, np.asarray(y, np.float32), 42)
