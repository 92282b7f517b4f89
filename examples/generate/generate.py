#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates tokens with a decoder: prefill of the prompts, then one token at a time, keys and values kept between.

    python generate.py --config qwen2-0.5b --precision bf16 --tokens 32
    python generate.py --model model.onnx --prompt "1,15,27" --prompt "8,3" --top-p 0.9 --temperature 0.8 --stop 2

A model has the inputs input_ids, attention_mask, position_ids and past_key_values.N.key|value, as optimum writes them.
Prompts are numbers of tokens, or text where --tokenizer names a
tokenizer.json and the package tokenizers is there. Prints what was generated, tokens per second, and what the bandwidth
of memory would allow: each token reads all weights once."""
import argparse
import json
import pathlib
import sys
import tempfile
import time

import numpy as np
import onnx

import decoder
import sampling
import treadle


def table_bytes(model):
    """Bytes of the constants of a model (path or ModelProto) that only Gather reads."""
    graph = (model if hasattr(model, "graph") else onnx.load(model, load_external_data=False)).graph
    others = {name for node in graph.node if node.op_type != "Gather" for name in node.input}
    tables = {node.input[0] for node in graph.node if node.op_type == "Gather"} - others
    return sum(4 * int(np.prod(tensor.dims)) for tensor in graph.initializer
               if tensor.name in tables and tensor.data_type == onnx.TensorProto.FLOAT)


def check_inputs(model):
    """A decoder has the inputs that this program fills."""
    graph = (model if hasattr(model, "graph") else onnx.load(model, load_external_data=False)).graph
    names = [value.name for value in graph.input]
    if not {"input_ids", "attention_mask"} <= set(names):
        raise ValueError(f"the model has the inputs {', '.join(names)}; expected input_ids, attention_mask and "
                         "past_key_values.N.key and .value, as optimum exports decoders for text generation")


class Generator:
    """A decoder compiled for many tokens at a time, for one, and, where it's to guess, for one and `guesses` more."""

    def __init__(self, model, batch, guesses=0, **options):
        if guesses and batch != 1:
            raise ValueError(f"guessed tokens are for one prompt, not for {batch}")
        check_inputs(model)
        self.guesses = guesses
        if guesses:
            dims = {"batch_size": batch, "sequence_length": 1 + guesses}
            self.check = treadle.compile(model, dims=dims, **options)
        self.prefill = treadle.compile(model, dims={"batch_size": batch}, **options)
        self.step = treadle.compile(model, dims={"batch_size": batch, "sequence_length": 1}, **options)
        self.batch, self.table_bytes = batch, table_bytes(model)
        self.inputs = {info.name: info for info in self.prefill.inputs}

    @property
    def weight_bytes(self):
        """What one token reads: of tables of embeddings it reads a row."""
        return self.step.memory["weights"] - self.table_bytes

    def _empty(self):
        past = {}
        for name, info in self.inputs.items():
            if name.startswith("past_key_values."):
                _, heads, _, size = info.shape
                past[name] = np.zeros((self.batch, heads, 0, size), info.dtype)
        return past

    def _run(self, model, tokens, seen, past):
        """Logits of all positions, and what is past then. `seen` says which of all positions hold tokens."""
        inputs = {"input_ids": tokens.astype(np.int64), "attention_mask": seen, **past}
        if "position_ids" in self.inputs:
            positions = np.maximum(np.cumsum(seen, axis=1) - 1, 0)
            inputs["position_ids"] = np.ascontiguousarray(positions[:, -tokens.shape[1]:])
        outputs = model(**inputs)
        return outputs["logits"], {name: outputs[name.replace("past_key_values", "present")] for name in past}

    def __call__(self, prompts, count, sampler, stop=()):
        """A list of prompts: lists of at most `count` new tokens, which end before one of `stop`; and the seconds that
        prompts and tokens took, and the steps of one token. Shorter prompts are filled up on the left."""
        if len(prompts) != self.batch or not all(prompts):
            raise ValueError(f"there are {len(prompts)} prompts; expected {self.batch} of at least one token")
        longest = max(map(len, prompts))
        tokens = np.array([[0] * (longest - len(row)) + row for row in prompts], np.int64)
        seen = np.array([[0] * (longest - len(row)) + [1] * len(row) for row in prompts], np.int64)
        start = time.perf_counter()
        logits, past = self._run(self.prefill, tokens, seen, self._empty())
        first = time.perf_counter()
        results, done, steps = [[] for _ in prompts], np.zeros(self.batch, bool), 0
        while True:
            tokens = sampler(logits[:, -1])
            for i, token in enumerate(tokens):
                done[i] = done[i] or int(token) in stop
                if not done[i]:
                    results[i].append(int(token))
            if done.all() or steps + 1 == count:
                return results, first - start, time.perf_counter() - first, steps
            seen = np.concatenate([seen, np.ones((self.batch, 1), np.int64)], axis=1)
            logits, past = self._run(self.step, np.asarray(tokens)[:, None], seen, past)
            steps += 1


    def speculate(self, prompt, count, sampler, stop=()):
        """As calling with one prompt, with fewer runs: tokens that followed when the text last ended so are guessed, and
        one run tells which of them would have been drawn. What is drawn has the same distribution."""
        start = time.perf_counter()
        logits, past = self._run(self.prefill, np.array([prompt], np.int64), np.ones((1, len(prompt)), np.int64),
                                 self._empty())
        first = time.perf_counter()
        text, steps, drawn = list(prompt), 0, [int(sampler(logits[:, -1])[0])]
        while True:
            # Of what was drawn all but the last token were guessed right, and have their keys and values.
            for token in drawn:
                if token in stop or len(text) - len(prompt) == count:
                    break
                text.append(token)
            else:
                token = None
            if token is not None or len(text) - len(prompt) == count:
                return [text[len(prompt):]], first - start, time.perf_counter() - first, steps
            guess = continuation(text, self.guesses)
            model, run = (self.check, [text[-1], *guess]) if guess else (self.step, [text[-1]])
            logits, past = self._run(model, np.array([run], np.int64), np.ones((1, len(text) + len(guess)), np.int64),
                                     past)
            steps += 1
            drawn = [int(sampler(logits[:, 0])[0])]
            while len(drawn) <= len(guess) and drawn[-1] == guess[len(drawn) - 1]:
                drawn.append(int(sampler(logits[:, len(drawn)])[0]))
            known = len(text) + len(drawn) - 1
            past = {name: np.ascontiguousarray(value[:, :, :known]) for name, value in past.items()}


def continuation(text, count, longest=3):
    """`count` tokens that followed the last place where the end of `text` stands in it too; [] where it's new."""
    for length in range(min(longest, len(text) - 1), 0, -1):
        end = text[-length:]
        for at in range(len(text) - length - 1, -1, -1):
            if text[at:at + length] == end:
                found = text[at + length:at + length + count]
                return found + [found[-1]] * (count - len(found))
    return []


def read_bandwidth(size, threads=0, repeat=5):
    """Bytes per second that `threads` (0: all) read, by Treadle: the largest of `size` bytes of numbers, at most 1 GiB."""
    from onnx import TensorProto, helper
    rows = 64
    size = min(max(size, 1 << 20), 1 << 30) // (4 * rows) * (4 * rows)
    graph = helper.make_graph([helper.make_node("ReduceMax", ["x"], ["y"], axes=[1], keepdims=0)], "read",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, size // 4 // rows])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows])])
    context = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)],
                                                ir_version=8), threads=threads).create_context()
    x, times = np.ones((rows, size // 4 // rows), np.float32), []
    for _ in range(repeat):
        start = time.perf_counter()
        context(x=x)
        times.append(time.perf_counter() - start)
    return size / min(times)


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--model", help="an .onnx file; else one with random weights is made")
    add("--config", choices=sorted(decoder.CONFIGS), default="tiny", help="shapes of that one (tiny)")
    add("--prompt", action="append", help="numbers of tokens, or text with --tokenizer; one for each row of the batch")
    add("--tokenizer", help="tokenizer.json")
    add("--tokens", type=int, default=16, help="most new tokens (16)")
    add("--temperature", type=float, default=0.0, help="0: the most likely token (0)")
    add("--top-p", type=float, default=1.0, help="draw from the likeliest tokens of that probability (1)")
    add("--seed", type=int, default=0)
    add("--stop", action="append", type=int, default=[], help="a token that ends a sequence")
    add("--speculate", type=int, default=0, metavar="N",
        help="guess N tokens at a time from what the text repeats, for one prompt (0)")
    add("--precision", default="f32", help="f32, bf16, f16 or mixed (f32)")
    add("--weights", type=int, choices=(4, 8), help="bits that weights are quantised to")
    add("--threads", type=int, default=0, help="0: all")
    add("--target", default="llvm -mcpu=native")
    add("--json", action="store_true", help="machine-readable output")
    return parser.parse_args(arguments)


def read_prompts(texts, tokenizer):
    """Numbers of tokens of each prompt."""
    def numbers(text):
        if not all(part.strip().isdecimal() for part in text.split(",")):
            raise ValueError(f"prompt {text!r}: expected numbers of tokens, such as 1,15,27; --tokenizer reads text")
        return [int(part) for part in text.split(",")]

    prompts = [tokenizer.encode(text).ids if tokenizer else numbers(text) for text in texts]
    if not all(prompts):
        raise ValueError(f"prompt {texts[prompts.index([])]!r} has no tokens")
    return prompts


def read_tokenizer(path):
    try:
        import tokenizers
    except ImportError:
        raise ValueError("--tokenizer needs the package tokenizers: pip install tokenizers") from None
    if not pathlib.Path(path).is_file():
        raise ValueError(f"can't open {path}: no such file")
    return tokenizers.Tokenizer.from_file(path)


def main(arguments=None):
    a = parse(arguments)
    for name, least in (("tokens", 1), ("speculate", 0)):
        if getattr(a, name) < least:
            raise ValueError(f"--{name} is {getattr(a, name)}; expected {least} or more")
    if a.model and not pathlib.Path(a.model).is_file():
        raise ValueError(f"can't open {a.model}: no such file")
    tokenizer = read_tokenizer(a.tokenizer) if a.tokenizer else None
    prompts = read_prompts(a.prompt or ["1,2,3,4,5,6,7,8"], tokenizer)
    with tempfile.TemporaryDirectory(prefix="generate-") as folder:
        path = pathlib.Path(a.model) if a.model else pathlib.Path(folder) / "model.onnx"
        if not a.model:
            decoder.save(decoder.build(decoder.CONFIGS[a.config], a.seed), path)
        if a.weights:
            treadle.quantize(path, pathlib.Path(folder) / "quantised.onnx", mode="weight_only", bits=a.weights,
                             weight_method="max")
            path = pathlib.Path(folder) / "quantised.onnx"
        generator = Generator(path, len(prompts), guesses=a.speculate, threads=a.threads, precision=a.precision, target=a.target)
    sampler = sampling.Sampler(a.temperature, a.top_p, a.seed)
    generator(prompts, 3, sampler)  # the first run of a shape plans its memory
    sampler = sampling.Sampler(a.temperature, a.top_p, a.seed)
    if a.speculate:
        results, prompt_seconds, seconds, steps = generator.speculate(prompts[0], a.tokens, sampler, a.stop)
    else:
        results, prompt_seconds, seconds, steps = generator(prompts, a.tokens, sampler, a.stop)
    tokens = max(map(len, results)) - 1 if a.speculate else steps  # the first is the prefill's
    bandwidth = read_bandwidth(generator.weight_bytes, a.threads)
    report = {"tokens": results, "prompt_tokens_per_second": sum(map(len, prompts)) / prompt_seconds,
              "tokens_per_second": len(prompts) * tokens / seconds if steps else None, "steps": steps,
              "bound_tokens_per_second": len(prompts) * bandwidth / generator.weight_bytes,
              "weight_bytes": generator.weight_bytes, "read_bytes_per_second": bandwidth}
    if tokenizer:
        report["texts"] = [tokenizer.decode(row) for row in results]
    if a.json:
        print(json.dumps(report))
        return
    for row in report.get("texts", results):
        print(row)
    print(f"prompt: {report['prompt_tokens_per_second']:.1f} tokens/s")
    if steps:
        print(f"decode: {report['tokens_per_second']:.1f} tokens/s; reading {generator.weight_bytes / 1e6:.0f} MB of "
              f"weights at {bandwidth / 1e9:.1f} GB/s allows {report['bound_tokens_per_second']:.1f}")


if __name__ == "__main__":
    try:
        main()
    except (ValueError, treadle.Error) as error:
        sys.exit(f"error: {error}")
