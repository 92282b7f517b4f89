# SPDX-License-Identifier: Apache-2.0
"""examples/generate: tokens are those that ONNX Runtime gives, with prompts of different lengths; sampling; stops."""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import pytest

import treadle

FOLDER = pathlib.Path(treadle.__file__).resolve().parents[2] / "examples/generate"
FOLDER = FOLDER if FOLDER.exists() else pathlib.Path(__file__).resolve().parents[2] / "examples/generate"
sys.path.insert(0, str(FOLDER))

import decoder  # noqa: E402
import generate  # noqa: E402
import sampling  # noqa: E402

PROMPTS = [[1, 2, 3, 4, 5], [7, 8]]


@pytest.fixture(scope="module")
def model():
    return decoder.build(decoder.CONFIGS["tiny"])


@pytest.fixture(scope="module")
def generator(model):
    return generate.Generator(model, len(PROMPTS))


class Reference(generate.Generator):
    """The same steps by ONNX Runtime."""

    def __init__(self, model, like):
        self.batch, self.inputs = like.batch, like.inputs
        session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        self.prefill = self.step = lambda **inputs: dict(zip(names, session.run(None, inputs)))


def test_greedy_tokens_are_the_reference_s(model, generator):
    tokens, *_ = generator(PROMPTS, 12, sampling.Sampler())
    assert tokens == Reference(model, generator)(PROMPTS, 12, sampling.Sampler())[0]
    assert [len(row) for row in tokens] == [12, 12]


def test_a_row_stops_by_itself(generator):
    whole, *_ = generator(PROMPTS, 12, sampling.Sampler())
    stop = whole[1][4]
    tokens, *_ = generator(PROMPTS, 12, sampling.Sampler(), {stop})
    assert tokens == [row[:row.index(stop)] if stop in row else row for row in whole]


@pytest.fixture(scope="module")
def guessing(model):
    return generate.Generator(model, 1, guesses=3)


@pytest.mark.parametrize("prompt", [[1, 2, 3, 4, 5], [7, 8, 7, 8, 7]])
def test_guessing_changes_no_token(guessing, prompt):
    whole, *_, runs = guessing([prompt], 16, sampling.Sampler())
    tokens, *_, fewer = guessing.speculate(prompt, 16, sampling.Sampler())
    assert tokens == whole and fewer <= runs
    stop = whole[0][6]
    assert guessing.speculate(prompt, 16, sampling.Sampler(), {stop})[0] == [whole[0][:whole[0].index(stop)]]


def test_guesses_are_what_followed_before():
    assert generate.continuation([1, 2, 3, 9, 1, 2], 2) == [3, 9]
    assert generate.continuation([1, 2, 3, 1, 2], 4) == [3, 1, 2, 2]
    assert generate.continuation([1, 2, 3], 2) == []


def test_one_prompt_for_guessing(model):
    with pytest.raises(ValueError, match="for one prompt, not for 2"):
        generate.Generator(model, 2, guesses=3)


def test_drawn_tokens_repeat_with_the_seed(generator):
    runs = [generator(PROMPTS, 8, sampling.Sampler(1.0, 0.9, seed))[0] for seed in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_top_p_keeps_the_likeliest():
    logits = np.log(np.array([0.5, 0.05, 0.3, 0.15]))
    np.testing.assert_allclose(sampling.Sampler(1.0, 0.75).probabilities(logits), [0.625, 0, 0.375, 0])
    np.testing.assert_allclose(sampling.Sampler(1.0, 1.0).probabilities(logits), np.exp(logits))
    np.testing.assert_allclose(sampling.Sampler(1.0, 0.01).probabilities(logits), [1, 0, 0, 0])
    with pytest.raises(ValueError, match="top_p is 0"):
        sampling.Sampler(1.0, 0.0)


def test_prompts_are_checked(generator):
    with pytest.raises(ValueError, match="expected 2 of at least one token"):
        generator([[1], []], 2, sampling.Sampler())


def test_the_program(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, FOLDER / "generate.py", "--tokens", "5", "--precision", "bf16", "--weights", "8",
               "--prompt", "1,2,3", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert len(report["tokens"][0]) == 5 and report["tokens_per_second"] > 0
    assert report["bound_tokens_per_second"] > 0


@pytest.mark.parametrize("arguments, text", [
    (["--prompt", "a,b"], "prompt 'a,b': expected numbers of tokens, such as 1,15,27; --tokenizer reads text"),
    (["--prompt", ""], "prompt '': expected numbers of tokens, such as 1,15,27; --tokenizer reads text"),
    (["--model", "none.onnx"], "can't open none.onnx: no such file"),
    (["--tokens", "0"], "--tokens is 0; expected 1 or more"),
    (["--speculate", "-2"], "--speculate is -2; expected 0 or more"),
    (["--threads", "-1"], "threads is -1; expected 0 to "),
    (["--precision", "f8"], "precision is 'f8'; expected one of f32, bf16, f16, mixed, auto"),
    (["--model", "relu.onnx"], "the model has the inputs x; expected input_ids, attention_mask and past_key_values.N.key"),
])
def test_mistakes_of_the_program(tmp_path, arguments, text):
    onnx.save(onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'),
              tmp_path / "relu.onnx")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    result = subprocess.run([sys.executable, FOLDER / "generate.py", *arguments], capture_output=True, text=True, env=environment,
                            cwd=tmp_path, check=False)
    assert result.returncode == 1 and result.stderr.startswith("error: " + text), result.stderr
