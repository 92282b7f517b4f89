#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures Treadle beside the installed peers, interleaved in one process: for each model and number of threads the
engines take turns, so that what else the machine does hits all of them. Outputs are compared before anything is
timed. Prints medians and ratios; writes JSON and an HTML report."""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import costs
import engines
import gemm
import report
import zoo

QUICK = ("light_squeezenet", "light_resnet50", "ppocrv4_rec_1x3x48x320", "mobilenet", "mlp")
REFERENCE = "onnxruntime"


def machine_limit(name, field, threads):
    """What bench/<name>.cc measures now, by number of threads; {} without a compiler."""
    source = pathlib.Path(__file__).with_name(name + ".cc")
    program = pathlib.Path(__file__).parents[1] / "build/bench" / name
    program.parent.mkdir(parents=True, exist_ok=True)
    for compiler in ("clang++-19", "clang++", "g++"):
        try:
            subprocess.run([compiler, "-O3", "-march=native", "-ffp-contract=fast", "-fassociative-math",
                            "-fno-signed-zeros", "-fno-trapping-math", "-pthread", source, "-o", program],
                           check=True, capture_output=True)
            break
        except (OSError, subprocess.CalledProcessError):
            continue
    else:
        return {}
    text = subprocess.run([program, *map(str, threads)], check=True, capture_output=True, text=True).stdout
    return {int(count): value for count, value in json.loads(text)[field].items()}


def gemm_in_one_thread():
    """The matrix product's schedules (gemm.py), in a process of one thread."""
    environment = dict(os.environ, TREADLE_NUM_THREADS="1")
    script = pathlib.Path(__file__).with_name("gemm.py")
    text = subprocess.run([sys.executable, script, "--json"], env=environment, check=True, capture_output=True,
                          text=True).stdout
    return json.loads(text)


def machine():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        cpu = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        cpu = platform.processor()
    return {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "system": platform.platform(),
            "load": os.getloadavg()[0]}


def measure(runners, seconds, least):
    """Times each runner in turn until `seconds` have gone by and each has at least `least` samples."""
    samples = {name: [] for name in runners}
    for run in runners.values():  # warm up
        run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(samples.values()))) < least:
        for name, run in runners.items():
            samples[name].append(engines.timed(run)[1])
    return samples


def summarise(samples):
    ordered = sorted(samples)
    quarter = len(ordered) // 4
    return {"median_ms": statistics.median(ordered) * 1e3, "min_ms": ordered[0] * 1e3,
            "p25_ms": ordered[quarter] * 1e3, "p75_ms": ordered[-1 - quarter] * 1e3, "runs": len(ordered)}


def bench_case(case, threads, names, args, peak, bandwidth):
    """One row: a model with a number of threads on every engine."""
    inputs = case.inputs()
    model = case.model()
    row = {"model": case.name, "threads": threads, "layer": case.layer, "flops": zoo.flops(model, case.shapes),
           "bytes": zoo.least_bytes(model, case.shapes), "engines": {}}
    runners, reference = {}, None
    for name in names:
        entry = row["engines"][name] = {}
        try:
            runner, entry["prepare_s"] = engines.timed(lambda: engines.ALL[name].prepare(case, threads, inputs))
            outputs = runner()
        except Exception as error:  # noqa: BLE001 - a peer that fails is a result
            entry["error"] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            continue
        if reference is None:
            reference = outputs
        else:
            differences = [text for a, e in zip(outputs, reference) if (text := zoo.compare(a, e))]
            if differences:
                entry["error"] = "wrong output: " + differences[0]
                continue
        runners[name] = runner
    if runners:
        for name, samples in measure(runners, args.seconds, args.least).items():
            entry = row["engines"][name]
            entry.update(summarise(samples))
            if row["flops"]:
                entry["gflops"] = row["flops"] / entry["median_ms"] * 1e-6
                if threads in peak:
                    entry["of_peak"] = entry["gflops"] / peak[threads]
            if row["bytes"] and threads in bandwidth:
                entry["of_bandwidth"] = row["bytes"] / entry["median_ms"] * 1e-6 / bandwidth[threads]
    if args.costs:
        for name in runners:
            row["engines"][name]["costs"] = costs.costs_of(name, case.name, threads)
    if "treadle" in runners:
        row["operators"] = slowest_operators(runners["treadle"], inputs, peak.get(threads))
    return row


def slowest_operators(runner, inputs, peak, count=12, runs=5):
    """[(kernel, ms, share of the run, share of the FMA peak or None)] of Treadle, the slowest first; the least time of
    some runs each. Winograd convolutions count as direct ones, and may so be above the peak."""
    context = runner.model.create_context(runner.model.threads)
    profiles = [context.profile(**inputs) for _ in range(runs)]
    seconds = {i: min(profile[i].seconds for profile in profiles) for i in range(len(profiles[0]))}
    total = sum(seconds.values()) or 1.0
    rows = []
    for i in sorted(seconds, key=lambda i: -seconds[i])[:count]:
        call = profiles[0][i]
        of_peak = 2e-9 * call.macs / seconds[i] / peak if call.macs and peak and seconds[i] > 0 else None
        rows.append((call.kernel.removeprefix("treadle_default_"), seconds[i] * 1e3, seconds[i] / total, of_peak))
    return rows


def print_row(row, names):
    """Beside a peer's time stands how many times faster Treadle is."""
    ours = row["engines"].get("treadle", {})
    cells = []
    for name in names:
        entry = row["engines"][name]
        if "median_ms" not in entry:
            cells.append(f"{name}: {entry.get('error', 'failed')[:60]}")
            continue
        text = f"{name} {entry['median_ms']:.2f} ms"
        if name != "treadle" and "median_ms" in ours:
            text += f" ({entry['median_ms'] / ours['median_ms']:.2f}x)"
        elif "of_peak" in entry:
            text += f" [{entry['of_peak']:.0%} of peak]"
        cells.append(text)
    print(f"{row['model']:28s} {row['threads']} thr  " + "  ".join(cells), flush=True)


def speed_over(row, peers):
    """How many times faster than the fastest of `peers` Treadle ran the row; None where either has no time."""
    ours = row["engines"].get("treadle", {}).get("median_ms")
    theirs = [ms for name in peers if (ms := row["engines"].get(name, {}).get("median_ms"))]
    return min(theirs) / ours if ours and theirs else None


def speeds(rows, names):
    """By peer, and "the fastest peer" of each row: the geometric mean of Treadle's speed over the peer's, and the
    least, whole models apart from single layers."""
    peers = [name for name in names if name != "treadle"]
    kinds = {"models": [row for row in rows if not row["layer"]], "layers": [row for row in rows if row["layer"]]}
    found = {}
    for what, among in [*((name, [name]) for name in peers), *([("the fastest peer", peers)] if peers[1:] else [])]:
        for kind, chosen in kinds.items():
            for threads in sorted({row["threads"] for row in chosen}):
                ratios = {row["model"]: ratio for row in chosen
                          if row["threads"] == threads and (ratio := speed_over(row, among))}
                if ratios:
                    worst = min(ratios, key=ratios.get)
                    found.setdefault(what, []).append(
                        {"kind": kind, "threads": threads, "mean": statistics.geometric_mean(ratios.values()),
                         "least": ratios[worst], "worst": worst, "rows": len(ratios)})
    return found


def cost_ratios(rows, names):
    """By peer: how many times faster Treadle loads (geometric mean, least) and how much of the peer's peak memory it
    takes (geometric mean, most)."""
    ratios = {}
    for name in names:
        pairs = [(row["engines"]["treadle"]["costs"], row["engines"][name]["costs"]) for row in rows
                 if name != "treadle" and row["engines"].get("treadle", {}).get("costs")
                 and row["engines"].get(name, {}).get("costs")]
        if not pairs:
            continue
        loads = [theirs["load_s"] / ours["load_s"] for ours, theirs in pairs]
        memory = [ours["memory_mb"] / max(theirs["memory_mb"], 0.1) for ours, theirs in pairs]
        ratios[name] = {"load": statistics.geometric_mean(loads), "load_least": min(loads),
                        "memory": statistics.geometric_mean(max(m, 1e-3) for m in memory), "memory_most": max(memory),
                        "rows": len(pairs)}
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few models, short times")
    parser.add_argument("--models", default="", help="comma-separated parts of model names")
    parser.add_argument("--threads", default="", help="such as 1,2 (default: 1 and the number of cores, at most 2)")
    parser.add_argument("--engines", default="onnxruntime,treadle,openvino")
    parser.add_argument("--seconds", type=float, help="time per model and number of threads")
    parser.add_argument("--least", type=int, default=5, help="least number of samples")
    parser.add_argument("--no-costs", dest="costs", action="store_false",
                        help="leave out compile time, load time, memory and size, which take a process each")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--html", type=pathlib.Path)
    args = parser.parse_args()
    args.costs = args.costs and not args.quick
    args.seconds = args.seconds or (1.0 if args.quick else 4.0)
    threads = [int(n) for n in args.threads.split(",")] if args.threads else [1, 2][:machine()["cores"]]

    names, versions = [], {}
    for name in args.engines.split(","):
        try:
            versions[name] = engines.ALL[name].version()
            names.append(name)
        except ImportError:
            print(f"{name}: not installed, left out", file=sys.stderr)
    cases = [case for case in zoo.all_models() if not args.quick or case.name in QUICK]
    if args.models:
        cases = [case for case in cases if any(part in case.name for part in args.models.split(","))]

    peak = machine_limit("fma_peak", "gflops", threads)
    bandwidth = machine_limit("memory_bandwidth", "gbytes_per_s", threads)
    result = {"machine": machine(), "versions": versions, "fma_peak_gflops": peak, "bandwidth_gb_s": bandwidth,
              "rows": []}
    print(f"{result['machine']['cpu']}, {result['machine']['cores']} cores; "
          + ", ".join(f"{value:.0f} GFLOP/s and {bandwidth.get(count, 0):.1f} GB/s on {count} thr"
                      for count, value in peak.items()), flush=True)
    for case in cases:
        for count in threads:
            result["rows"].append(bench_case(case, count, names, args, peak, bandwidth))
            print_row(result["rows"][-1], names)
    if peak and not args.models:
        result["gemm"] = gemm_in_one_thread()
        print(gemm.table(result["gemm"]), flush=True)
    if "onnxruntime" in names and not args.models:
        import precision  # needs a peer, which makes its models
        result["precision"] = []
        for row in precision.rows(threads, args.seconds / 4):
            result["precision"].append(row)
            print(precision.text_of(row), flush=True)
    result["speeds"] = speeds(result["rows"], names)
    for name, entries in result["speeds"].items():
        for entry in entries:
            print("speed of treadle over " + report.speed_text(name, entry))

    result["cost_ratios"] = cost_ratios(result["rows"], names)
    for name, ratio in result["cost_ratios"].items():
        print(f"loads {ratio['load']:.1f}x as fast as {name} (least {ratio['load_least']:.1f}x), with {ratio['memory']:.2f} "
              f"of its peak memory (most {ratio['memory_most']:.2f}; {ratio['rows']} rows)")

    for path, write in ((args.json, lambda path: path.write_text(json.dumps(result, indent=1))),
                        (args.html, lambda path: report.write(path, result))):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path)
            print(f"wrote {path}")
    wrong = [row for row in result["rows"] if "error" in row["engines"].get("treadle", {})]
    for row in wrong:
        print(f"FAILED {row['model']}: {row['engines']['treadle']['error']}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
