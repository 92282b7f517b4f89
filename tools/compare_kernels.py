#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says which kernels two builds of the compiler make differently.

    tools/compare_kernels.py ../base/build build                  all models, for AVX2 and AVX-512
    tools/compare_kernels.py build --save kernels.json            keeps hashes to compare with later
    tools/compare_kernels.py kernels.json build --models 'conv|light_resnet'

Each build compiles the models of bench/zoo.py and bench/kernel_cases.py to an archive of objects, one per kernel, whose
bytes are compared by name, and where names differ (kernels that are numbered) by content. Exits with 1 where any kernel
differs. The kernel cache is off. Run it with the Python environment that has onnx.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))

TARGETS = {
    "v3": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3 -num-cores=2",
    "v4": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4 -num-cores=2",
    "v3-1": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v3 -num-cores=1",
    "v4-16": "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4 -num-cores=16",
}
SHT_SYMTAB, STT_FUNC = 2, 2


def sections(elf):
    """(name, type, bytes, link) of each section of a 64-bit little-endian object."""
    offset, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQII", elf, offset + i * size) for i in range(count)]
    strings = elf[headers[names][4]:headers[names][4] + headers[names][5]]
    for name, kind, _, _, start, length, link, _ in headers:
        text = strings[name:strings.index(b"\0", name)].decode()
        yield text, kind, elf[start:start + length], link


def kernel_name(elf):
    """The first global function that an object defines, without the model's prefix."""
    parts = list(sections(elf))
    for _, kind, data, link in parts:
        if kind != SHT_SYMTAB:
            continue
        strings = parts[link][2]
        for at in range(0, len(data), 24):
            name, info, _, section = struct.unpack_from("<IBBH", data, at)
            text = strings[name:strings.index(b"\0", name)].decode()
            if info & 15 == STT_FUNC and info >> 4 == 1 and section != 0:
                return re.sub(r"^treadle_(default_)?|(__raw)$", "", text)
    return "?"


def digest(elf, kernel):
    """Of what the machine sees: not of symbols, comments and notes, nor of the kernel's own name, which may be numbered
    otherwise."""
    h = hashlib.sha256()
    for name, _, data, _ in sections(elf):
        if name not in (".comment", ".symtab", ".strtab", ".shstrtab") and not name.startswith(".note"):
            h.update(name.encode() + b"\0" + data.replace(kernel.encode() + b"\0", b"\0"))
    return h.hexdigest()[:20]


def compile_one(build, model, target, shapes, keep):
    """Hashes of the kernels of a model: {name: hash}; a text where it doesn't compile."""
    with tempfile.TemporaryDirectory(prefix="kernels") as folder:
        archive = pathlib.Path(folder) / "model.tar"
        command = [str(build / "bin/treadle"), "compile", str(model), "-o", str(archive), "--target", TARGETS[target],
                   "--threads", "1"]
        if shapes:
            command += ["--input-shapes", ",".join(f"{name}:[{','.join(map(str, s))}]" for name, s in shapes.items())]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "TREADLE_CACHE": "0"})
        if done.returncode != 0:
            return f"error: {done.stderr.strip()[-300:]}"
        kernels = {}
        with tarfile.open(archive) as tar:
            for member in tar:
                elf = tar.extractfile(member).read() if re.fullmatch(r"lib\d+\.o", member.name) else b""
                if elf[:4] != b"\x7fELF":
                    continue
                name = kernel_name(elf)
                kernels[name] = digest(elf, name)
                if keep is not None:
                    (keep / target).mkdir(parents=True, exist_ok=True)
                    (keep / target / f"{model.stem}.{name[:150]}.o").write_bytes(elf)
        return kernels


def all_models(pattern, folder):
    """{name: (path, shapes)}; generated ones are written to the folder."""
    import kernel_cases
    import onnx
    import zoo

    models = {}
    for case in kernel_cases.CASES:
        if re.search(pattern, case.__name__):
            path = folder / f"{case.__name__}.onnx"
            onnx.save(case(), path)
            models[case.__name__] = (path, {})
    # Of one network at several sizes the first; one network of weights that take long to copy is enough.
    seen = set()
    for case in zoo.light_models() + zoo.ocr_models() + zoo.generated_models() + zoo.transformer_models(1):
        if not re.search(pattern, case.name) or re.search("vgg|zfnet", case.name) or case.path in seen:
            continue
        path = case.path
        if path is None:
            path = folder / f"{case.name}.onnx"
            path.write_bytes(case.bytes())
        else:
            seen.add(path)
        models[case.name] = (path, case.shapes)
    for path in voice_models():
        if re.search(pattern, path.stem):
            models[path.stem] = (path, {})
    return models


def voice_models():
    import importlib.util

    spec = importlib.util.find_spec("silero_vad")
    folder = pathlib.Path(spec.origin).parent / "data" if spec is not None else None
    return [] if folder is None else [p for p in [folder / "silero_vad_16k_sequence.onnx"] if p.exists()]


def hashes(source, models, targets, jobs, keep):
    """{model/target: {kernel: hash}} of a build tree, or those that a file holds."""
    if source.suffix == ".json":
        return json.loads(source.read_text())
    build = source.resolve()
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        found = {f"{name}/{target}": pool.submit(compile_one, build, path, target, shapes, keep)
                 for name, (path, shapes) in models.items() for target in targets}
        return {key: future.result() for key, future in found.items()}


def compare(before, after):
    """Prints what differs; the number of kernels that do."""
    equal = different = 0
    for key in before.keys() & after.keys():
        old, new = before[key], after[key]
        if isinstance(old, str) or isinstance(new, str):
            if old != new:
                different += 1
                print(f"{key}: {old if isinstance(old, str) else 'compiled'} -> "
                      f"{new if isinstance(new, str) else 'compiled'}")
            continue
        same = [name for name in new if old.get(name) == new[name]]
        # Kernels of one name are numbered in the order of the graph.
        left_old = {name: h for name, h in old.items() if name not in same}
        left_new = {name: h for name, h in new.items() if name not in same}
        moved = [name for name, h in left_new.items() if h in left_old.values()]
        changed = sorted(name for name in left_new if name not in moved)
        gone = sorted(name for name, h in left_old.items() if name not in new and h not in new.values())
        equal += len(same) + len(moved)
        different += len(changed) + len(gone)
        for name in changed:
            print(f"{key}: {name} {'differs' if name in old else 'is new'}")
        for name in gone:
            print(f"{key}: {name} is gone")
    print(f"{equal} kernels equal, {different} different; {len(before.keys() & after.keys())} models and targets")
    return different


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", type=pathlib.Path, help="one or two build trees, or files of --save")
    parser.add_argument("--models", default="", help="a regular expression of names")
    parser.add_argument("--targets", default="v3,v4", help=f"of {', '.join(TARGETS)} (v3,v4)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--save", type=pathlib.Path, help="writes the hashes of the last source")
    parser.add_argument("--keep", type=pathlib.Path, help="keeps the objects: KEEP/<number of source>/<target>/*.o")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="models") as folder:
        models = all_models(args.models, pathlib.Path(folder))
        found = [hashes(source, models, args.targets.split(","), args.jobs, args.keep / str(i) if args.keep else None)
                 for i, source in enumerate(args.sources)]
    if args.save:
        args.save.write_text(json.dumps(found[-1], indent=1))
    for key, kernels in found[-1].items():
        if isinstance(kernels, str):
            print(f"{key}: {kernels}")
    return 1 if len(found) > 1 and compare(found[0], found[1]) else 0


if __name__ == "__main__":
    sys.exit(main())
