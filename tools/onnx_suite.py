#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs ONNX's node tests (of the installed package onnx) through treadle.onnx_backend: models are compiled before any
input is seen.

  onnx_suite.py                    run all and sum up; --only REGEX for some, --why for the refusals by reason,
                                   --target opencl (or another) for what that target makes of them
  onnx_suite.py --check            fail when a case of tests/data/onnx_passing.txt doesn't pass (the nightly command)
  onnx_suite.py --write            run all, with the shapes declared and without them; write that list and
                                   docs/onnx-support.md
"""
import argparse
import collections
import concurrent.futures
import concurrent.futures.process
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PASSING = ROOT / "tests/data/onnx_passing.txt"
TABLE = ROOT / "docs/onnx-support.md"
# Drawn from a generator that the standard doesn't specify: only types and shapes can be compared.
RANDOM = re.compile(r"test_(bernoulli|training_dropout(?!_zero_ratio)|dropout_random|multinomial|random)")
RTOL, ATOL = 1e-3, 1e-7

_CASES = None


def cases():
    global _CASES
    if _CASES is None:
        import warnings

        from onnx.backend.test.loader import load_node_model_tests
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _CASES = {case.name: case for case in load_node_model_tests()}
    return _CASES


def with_symbolic_dims(model):
    """The model with another name for each dimension of its tensor inputs; lists of axes and sizes keep their length."""
    import onnx
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    changed = False
    for i, value in enumerate(copy.graph.input):
        tensor = value.type.tensor_type
        if value.type.WhichOneof("value") != "tensor_type" or (len(tensor.shape.dim) < 2 and tensor.elem_type in (6, 7)):
            continue
        for k, dim in enumerate(tensor.shape.dim):
            dim.dim_param = f"n{i}_{k}"
            changed = True
    for value in copy.graph.output:
        for dim in value.type.tensor_type.shape.dim:
            dim.ClearField("dim_value")
    return copy if changed else None


def same(expected, actual, shape_only):
    import numpy as np
    if isinstance(expected, (list, tuple)):
        return isinstance(actual, (list, tuple)) and len(expected) == len(actual) and all(
            same(e, a, shape_only) for e, a in zip(expected, actual))
    expected, actual = np.asarray(expected), np.asarray(actual)
    if expected.shape != actual.shape or (expected.dtype != actual.dtype and expected.dtype.kind != "O"):
        return False
    if shape_only:
        return True
    if expected.dtype.kind in "OUS":
        return [str(x) for x in expected.ravel()] == [str(x) for x in actual.ravel()]
    rtol = max(RTOL, 2**-6) if expected.dtype.name == "bfloat16" else RTOL
    # What is expected was rounded, too: sums that nearly cancel differ by a rounding of what was added up.
    atol = ATOL
    if expected.dtype.name in ("float16", "float32", "float64") and expected.size != 0:
        finite = np.abs(expected[np.isfinite(expected)])
        atol = max(ATOL, float(np.finfo(expected.dtype).eps) * float(finite.max(initial=0)))
    if expected.dtype.kind not in "biufc":
        expected, actual = expected.astype(np.float32), actual.astype(np.float32)
    return np.allclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True)


def run_case(name, symbolic=False, target=None):
    """"pass", "wrong" or "refused", and why."""
    from onnx import MapProto, OptionalProto, SequenceProto, TensorProto, numpy_helper

    import treadle
    from treadle import onnx_backend
    case = cases()[name]
    model = with_symbolic_dims(case.model) if symbolic else case.model
    if model is None:
        return "none", ""

    def array(value):
        """Of a protobuf or what it holds: an array, a list, None."""
        readers = {TensorProto: numpy_helper.to_array, SequenceProto: numpy_helper.to_list,
                   OptionalProto: numpy_helper.to_optional, MapProto: numpy_helper.to_dict}
        return readers[type(value)](value) if type(value) in readers else value

    try:
        prepared = onnx_backend.prepare(model, **({"target": target} if target else {}))
        for inputs, outputs in case.data_sets:
            results = prepared.run([array(value) for value in inputs])
            wanted = [array(value) for value in outputs]
            if not same(wanted, list(results)[:len(wanted)], bool(RANDOM.match(name))):
                return "wrong", "the results differ"
    except treadle.Error as error:
        return "refused", str(error)
    except (TypeError, ValueError) as error:  # values that aren't tensors
        return "refused", str(error)
    return "pass", ""


def run_all(names, symbolic=False, target=None):
    """Results by name. A case runs in another process, so that none can end the run."""
    results = {}
    todo = list(names)
    while todo:
        with concurrent.futures.ProcessPoolExecutor(max_workers=1) as pool:
            futures = [(name, pool.submit(run_case, name, symbolic, target)) for name in todo]
            try:
                for name, future in futures:
                    results[name] = future.result()
            except concurrent.futures.process.BrokenProcessPool:
                results[name] = ("crash", "the process ended")
        todo = [name for name in todo if name not in results]
    return results


def operator_of(case):
    nodes = case.model.graph.node
    return (f"{nodes[0].domain}." if nodes[0].domain not in ("", "ai.onnx") else "") + nodes[0].op_type if len(nodes) == 1 else None


def dtypes_of(case):
    import onnx
    names = set()
    for value in case.model.graph.input:
        if value.type.WhichOneof("value") == "tensor_type":
            names.add(onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type).lower())
        else:
            names.add(value.type.WhichOneof("value").replace("_type", ""))
    return names


def table(results, symbolic):
    import onnx
    rows = collections.defaultdict(lambda: collections.Counter())
    versions, dtypes = collections.defaultdict(set), collections.defaultdict(set)
    for schema in onnx.defs.get_all_schemas_with_history():
        name = (f"{schema.domain}." if schema.domain else "") + schema.name
        versions[name].add(schema.since_version)
    for name, case in cases().items():
        op = operator_of(case)
        if op is None or name not in results:
            continue
        rows[op]["cases"] += 1
        rows[op]["pass"] += results[name][0] == "pass"
        if results[name][0] == "pass":
            dtypes[op] |= dtypes_of(case)
        if name in symbolic and symbolic[name][0] != "none":
            rows[op]["symbolic cases"] += 1
            rows[op]["symbolic"] += symbolic[name][0] == "pass"
    total = collections.Counter(status for status, _ in results.values())
    lines = ["# ONNX operators", "",
             f"Made by `tools/onnx_suite.py --write` from the node tests of onnx {onnx.__version__}: {total['pass']} of "
             f"{len(results)} pass, {total['refused']} are refused by name, {total['wrong']} differ, {total['crash']} "
             "crash. Models are compiled before any input is seen; *symbolic* counts the same cases with every dimension "
             "unknown when compiling. `treadle ops` lists the versions that are implemented, `treadle ops --model m.onnx` "
             "what a model has that isn't.", "",
             "| operator | opsets | cases passed | symbolic | types of operands seen |", "|---|---|---|---|---|"]
    for op in sorted(rows):
        row = rows[op]
        dynamic = f"{row['symbolic']} / {row['symbolic cases']}" if row["symbolic cases"] else "–"
        opsets = ", ".join(str(v) for v in sorted(versions[op]))
        lines.append(f"| {op} | {opsets} | {row['pass']} / {row['cases']} | {dynamic} | {', '.join(sorted(dtypes[op]))} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--symbolic", action="store_true", help="every dimension unknown when compiling")
    parser.add_argument("--why", action="store_true")
    parser.add_argument("--target", help="compile for this target; the default is native code for this machine")
    options = parser.parse_args()
    if options.target and options.write:
        parser.error("--write describes the default target; leave out --target")
    passing = set(PASSING.read_text().split()) if PASSING.exists() else set()
    names = [name for name in cases() if re.search(options.only, name)]
    if options.check:
        names = [name for name in names if name in passing]
    results = run_all(names, options.symbolic, options.target)
    count = collections.Counter(status for status, _ in results.values())
    print(f"{len(results)} cases: " + ", ".join(f"{number} {status}" for status, number in count.most_common()))
    failed = False
    for name, (status, why) in results.items():
        expected = status in (("pass", "none") if options.symbolic else ("pass",))
        missed = options.check and not expected
        failed = failed or missed
        if status in ("wrong", "crash") or missed or (options.why and status == "refused"):
            print(f"{status}: {name}: " + " ".join(why.split())[:300])
    if options.write:
        PASSING.write_text("".join(f"{name}\n" for name, (status, _) in sorted(results.items()) if status == "pass"))
        direct = [name for name in names if operator_of(cases()[name])]
        TABLE.write_text(table(results, run_all(direct, symbolic=True)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
