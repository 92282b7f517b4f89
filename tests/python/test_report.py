# SPDX-License-Identifier: Apache-2.0
"""Pages of one file: `treadle report`, treadle.report, Model.report. Drawn by a browser where there is one."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle
from treadle import report

PROGRAM = pathlib.Path(treadle.__file__).parent / "bin/treadle"
BROWSER = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None)

pytest.importorskip("vl_convert", reason="the build has no libraries of report pages")
pytest.importorskip("netron", reason="the build has no libraries of report pages")


def run(*args):
    return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "TREADLE_PYTHON": sys.executable})


def data_of(path):
    """The data that a page draws."""
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL).group(1))


def with_script(page, path, script):
    """A copy of the page that runs `script` at its end."""
    before, end, after = page.read_text(encoding="utf-8").rpartition("</body>")
    path.write_text(f"{before}<script>{script}</script>{end}{after}", encoding="utf-8")
    return path


def drawn(path, *flags):
    """The page's elements, without scripts, after its program ran."""
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", *flags, "--dump-dom",
               path.as_uri()]
    text = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    return re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Two convolutions with a branch, and a product."""
    path = tmp_path_factory.mktemp("report") / "branches.onnx"
    rng = np.random.default_rng(5)
    weights = {"w1": (8, 3, 3, 3), "w2": (8, 8, 3, 3), "w3": (8, 10)}
    nodes = [helper.make_node("Conv", ["x", "w1"], ["a"], "first_conv", pads=[1] * 4),
             helper.make_node("Relu", ["a"], ["b"], "first_relu"),
             helper.make_node("Conv", ["b", "w2"], ["c"], "second_conv", pads=[1] * 4),
             helper.make_node("Add", ["b", "c"], ["d"], "sum"),
             helper.make_node("GlobalAveragePool", ["d"], ["e"], "pool"),
             helper.make_node("Flatten", ["e"], ["f"], "flat"),
             helper.make_node("MatMul", ["f", "w3"], ["y"], "product")]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 20, 20])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
                              [numpy_helper.from_array(rng.standard_normal(s).astype("float32"), n) for n, s in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="module")
def page(model):
    path = model.with_name("page.html")
    result = run("report", model, "-o", path, "--repeat", 2, "--verify", "--threads", 1)
    assert result.returncode == 0, result.stderr
    return path


def test_the_page_has_every_section(page):
    titles = [section["title"] for section in data_of(page)["sections"]]
    assert titles == ["Overview", "What to do next", "Graph", "Time per operator", "Roofline", "Memory over time",
                      "Precision per layer", "Calls"]


def test_five_things_to_do_at_most_and_one_at_least(page):
    (advice,) = [s for s in data_of(page)["sections"] if s["kind"] == "advice"]
    assert 1 <= len(advice["items"]) <= 5


def test_the_graph_shows_fused_nodes_of_the_model_and_rivals_of_their_kernel(page):
    (graph,) = [s for s in data_of(page)["sections"] if s["kind"] == "graph"]
    boxes = {box["title"]: box for box in graph["nodes"]}
    assert boxes["first_conv + 1"]["members"] == ["first_conv", "first_relu"]
    details = dict(boxes["first_conv + 1"]["details"])
    assert "* conv2d." in details["kernels to choose from (* taken)"]
    assert {"x", "y"} <= set(boxes)
    ids = {box["id"] for box in graph["nodes"]}
    assert graph["edges"] and all(set(edge) <= ids for edge in graph["edges"])


def titled_edges(graph):
    titles = {box["id"]: box["title"] for box in graph["nodes"]}
    return {(titles[a], titles[b]) for a, b in graph["edges"]}


def test_dynamic_models_have_the_graph_and_the_rates_of_static_ones(model, tmp_path):
    open_model = onnx.load(model)
    for dim in (2, 3):
        open_model.graph.input[0].type.tensor_type.shape.dim[dim].dim_param = f"size{dim}"
    onnx.save(open_model, tmp_path / "open.onnx")
    assert run("compile", tmp_path / "open.onnx", "-o", tmp_path / "open.so").returncode == 0
    sizes = ["--input-shapes", "x:[1,3,20,20]"]
    result = run("report", tmp_path / "open.so", "-i", "random", *sizes, "-o", tmp_path / "open.html")
    assert result.returncode == 0, result.stderr
    (graph,) = [s for s in data_of(tmp_path / "open.html")["sections"] if s["kind"] == "graph"]
    edges = titled_edges(graph)
    assert ("x", "first_conv + 1") in edges and any(edge[1] == "y" for edge in edges)
    assert any(a == "first_conv + 1" and b.startswith("second_conv") for a, b in edges)
    (memory,) = [s for s in data_of(tmp_path / "open.html")["sections"] if s["title"] == "Memory over time"]
    boxes = {box["tensor"].split(",")[0]: box for box in memory["spec"]["data"]["values"]}
    # Eight channels of 20 x 20 floats, in blocks of so many as the machine's vectors hold; read by the next convolution.
    assert boxes["first_conv"]["KiB"] in (12.5, 25.0)
    assert boxes["first_conv"]["from"] < boxes["second_conv"]["from"] < boxes["first_conv"]["to"]
    rows = json.loads(run("profile", tmp_path / "open.so", "-i", "random", *sizes, "--json").stdout)["rows"]
    macs = {row["nodes"].split(",")[0]: row["gflops"] * row["ms"] * 1e6 / 2 for row in rows}
    assert macs["first_conv"] == pytest.approx(20 * 20 * 8 * 3 * 9)
    assert macs["second_conv"] == pytest.approx(20 * 20 * 8 * 8 * 9)
    assert macs["product"] == pytest.approx(80)


def check_memory_of_a_run(compiled, values, times, path):
    """Each call's results from it to the last call that reads them, side by side; the note has the most at once."""
    compiled.report(path, values, repeat=1)
    (memory,) = [s for s in data_of(path)["sections"] if s["title"] == "Memory over time"]
    boxes = memory["spec"]["data"]["values"]
    kept = {}
    for call, time in enumerate(times):
        for source in time.sources:
            kept[source] = call
        if time.outputs:
            kept[call] = len(times) - 1
    assert [(box["from"], box["to"]) for box in boxes] == [(i + 1, kept.get(i, i) + 2) for i in range(len(times))]
    assert {box["KiB"] for box in boxes if "float32 (1, 8)" in box["shape"]} == {32 / 1024}
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            assert a["from"] >= b["to"] or b["from"] >= a["to"] or a["low"] >= b["high"] or b["low"] >= a["high"], (a, b)
    most = max(sum(box["KiB"] for box in boxes if box["from"] <= call < box["to"]) for call in range(len(times) + 2))
    assert f"At most {most:.1f} KiB at once" in memory["note"], memory["note"]


def test_steps_of_a_loop_are_one_box(tmp_path):
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("MatMul", ["state", "w"], ["m"], "step"), helper.make_node("Tanh", ["m"], ["next"], "squash"),
         helper.make_node("Identity", ["going"], ["go_on"])], "body",
        [value("i", TensorProto.INT64, []), value("going", TensorProto.BOOL, []), value("state", TensorProto.FLOAT, [1, 8])],
        [value("go_on", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, [1, 8]), value("next", TensorProto.FLOAT, [1, 8])])
    graph = helper.make_graph(
        [helper.make_node("Loop", ["steps", "yes", "start"], ["last", "rows"], body=body),
         helper.make_node("ReduceSum", ["rows"], ["total"], "total_of_rows", keepdims=0)], "g",
        [value("steps", TensorProto.INT64, []), value("start", TensorProto.FLOAT, [1, 8])],
        [value("last", TensorProto.FLOAT, [1, 8]), value("total", TensorProto.FLOAT, [])],
        [numpy_helper.from_array(np.eye(8, dtype="float32"), "w"), numpy_helper.from_array(np.array(True), "yes")])
    loop = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    compiled = treadle.compile(loop)
    values = {"steps": np.array(6, "int64"), "start": np.ones((1, 8), "float32")}
    times = compiled.profile(values)
    check_memory_of_a_run(compiled, values, times, tmp_path / "loop.html")
    steps = [i for i, time in enumerate(times) if "step" in time.nodes]
    assert len(steps) == 6 and len({times[i].site for i in steps}) == 1
    assert all(times[i].macs_known and times[i].macs == 64 for i in steps)
    assert list(times[steps[0]].sources) == [-2] and times[steps[1]].sources != [-2]
    assert steps[-1] in [source for time in times[steps[-1]:] for source in time.sources]
    assert {output for time in times for output in time.outputs} == {0, 1}


def test_memory_boxes_that_live_together_do_not_overlap(page):
    (memory,) = [s for s in data_of(page)["sections"] if s["title"] == "Memory over time"]
    boxes = memory["spec"]["data"]["values"]
    assert boxes
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            in_place = a["from"] == b["to"] - 1 or b["from"] == a["to"] - 1
            apart = (a["from"] >= b["to"] or b["from"] >= a["to"] or a["low"] >= b["high"] or b["low"] >= a["high"])
            assert apart or in_place, (a, b)


def test_precision_is_that_of_every_value(page):
    (chart,) = [s for s in data_of(page)["sections"] if s["title"] == "Precision per layer"]
    assert [row["name"] for row in chart["spec"]["data"]["values"]] == ["a", "b", "c", "d", "e", "f", "y"]
    assert min(row["snr"] for row in chart["spec"]["data"]["values"]) > 80


def test_the_page_needs_no_other_file_and_no_network(page):
    text = page.read_text(encoding="utf-8")
    body = re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r'(src|href)="(?!#)', body)
    assert text.count("</script>") == 4


def test_profile_and_bench_write_pages_too(model, tmp_path):
    for verb in ("profile", "bench"):
        result = run(verb, model, "--report", tmp_path / f"{verb}.html", "--repeat", 3)
        assert result.returncode == 0, result.stderr
        assert len(data_of(tmp_path / f"{verb}.html")["sections"]) > 4
    titles = [section["title"] for section in data_of(tmp_path / "bench.html")["sections"]]
    assert "Engines" in titles


def test_the_page_never_replaces_the_model(model):
    result = run("report", model, "-o", model)
    assert result.returncode == 2 and "it is the input" in result.stderr


def test_models_in_python_write_pages(model, tmp_path):
    treadle.compile(str(model)).report(tmp_path / "p.html", repeat=2)
    assert data_of(tmp_path / "p.html")["title"] == "branches.onnx"


def test_what_a_page_cannot_hold_is_refused(tmp_path):
    with pytest.raises(treadle.Error, match="no sections of kind 'picture'; there are: facts, advice, table, chart, graph"):
        report.write(tmp_path / "p.html", "t", [{"kind": "picture", "title": "p"}])
    with pytest.raises(treadle.Error, match="a section of kind chart needs 'spec'"):
        report.write(tmp_path / "p.html", "t", [{"kind": "chart", "title": "p"}])


def test_texts_cannot_leave_their_place(tmp_path):
    evil = "</script><script>alert(1)</script><!-- \u2028 \" '"
    report.write(tmp_path / "p.html", evil, [report.facts("f", [(evil, evil)])])
    assert data_of(tmp_path / "p.html")["sections"][0]["rows"] == [[evil, evil]]
    assert (tmp_path / "p.html").read_text(encoding="utf-8").count("</script>") == 4


@pytest.mark.skipif(BROWSER is None, reason="no Chromium")
def test_a_browser_draws_every_section(page):
    text = drawn(page)
    assert 'data-drawn="yes"' in text and "can't be drawn" not in text
    (graph,) = [s for s in data_of(page)["sections"] if s["kind"] == "graph"]
    assert len(re.findall(r'<g class="node', text)) == len(graph["nodes"])
    assert len(re.findall(r'class="chart vega-embed', text)) == 4
    assert "first_conv" in text


@pytest.mark.skipif(BROWSER is None, reason="no Chromium")
@pytest.mark.parametrize("dark", [True, False])
def test_names_in_charts_can_be_read(page, dark):
    """They aren't dark on dark, nor light on light."""
    flags = ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else ["--blink-settings=preferredColorScheme=1"]
    charts = re.findall(r'<svg[^>]*class="marks".*?</svg>', drawn(page, "--window-size=1280,900", *flags), re.DOTALL)
    names = [color for chart in charts for color in
             re.findall(r'class="mark-text role-mark.*?<text[^>]*fill="(#[0-9a-f]{6})"', chart, re.DOTALL)]
    assert names and all((int(color[1:3], 16) > 127) == dark for color in names)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium")
def test_phones_need_no_sideways_scrolling(page, tmp_path):
    script = """addEventListener('load', () => setTimeout(() => {
      document.body.dataset.wide = document.documentElement.scrollWidth; document.body.dataset.window = innerWidth;
    }, 3000));"""
    text = drawn(with_script(page, tmp_path / "probe.html", script), "--window-size=412,900")
    wide, window = (int(re.search(rf'data-{name}="(\d+)"', text).group(1)) for name in ("wide", "window"))
    assert wide <= window


@pytest.mark.skipif(BROWSER is None, reason="no Chromium")
@pytest.mark.parametrize("window, branches", [("360,780", 5), ("412,900", 6), ("1280,900", 6)])
def test_the_whole_width_of_a_graph_is_shown(tmp_path, window, branches):
    nodes = [{"id": str(i), "title": f"inception_3a/branch{i}", "subtitle": "0.251 ms, 0.5 %, conv2d"} for i in range(branches)]
    edges = [["in", node["id"]] for node in nodes]
    report.write(tmp_path / "p.html", "wide", [report.graph("Graph", [{"id": "in", "title": "x"}, *nodes], edges)])
    script = """addEventListener('load', () => setTimeout(() => {
      const canvas = document.querySelector('.graph svg').getBoundingClientRect();
      const boxes = [...document.querySelectorAll('.graph g.node rect')].map((node) => node.getBoundingClientRect());
      document.body.dataset.inside = boxes.filter((b) => b.left >= canvas.left && b.right <= canvas.right).length;
    }, 2000));"""
    text = drawn(with_script(tmp_path / "p.html", tmp_path / "probe.html", script), f"--window-size={window}")
    assert f'data-inside="{branches + 1}"' in text, re.search(r'data-inside="\d+"', text)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium")
def test_the_graph_works_by_keyboard(page, tmp_path):
    script = """addEventListener('load', () => setTimeout(() => {
      const nodes = () => [...document.querySelectorAll('.graph g.node')];
      const node = nodes().find((n) => n.getAttribute('aria-label').startsWith('first_conv'));
      const key = (target, key) => target.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
      const scene = document.querySelector('.graph svg > g');
      const before = scene.getAttribute('transform');
      key(document.querySelector('.graph svg'), '+');
      document.body.dataset.zoomed = scene.getAttribute('transform') !== before;
      key(node, 'Enter');
      document.body.dataset.opened = nodes().some((n) => n.textContent.includes('first_relu'));
      document.body.dataset.details = document.querySelector('.graph aside').textContent.includes('conv2d.');
      const search = document.querySelector('.graph').parentElement.querySelector('input[type=search]');
      search.value = 'second_conv'; search.dispatchEvent(new Event('input'));
      document.body.dataset.found = document.querySelectorAll('.graph g.found').length;
    }, 1000));"""
    text = drawn(with_script(page, tmp_path / "probe.html", script))
    for name, expected in (("zoomed", "true"), ("opened", "true"), ("details", "true"), ("found", "1")):
        assert f'data-{name}="{expected}"' in text, name


def test_bounds_count_what_a_kernel_multiplies():
    """Winograd's method executes 36 multiplications for 144 of a direct convolution, or 16 for 36."""
    rng = np.random.default_rng(0)
    weight = (rng.standard_normal((64, 64, 3, 3)) * 0.05).astype("float32")
    for shape in ([1, 64, 28, 28], ["n", 64, "h", "w"]):
        graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[1, 1, 1, 1])], "g",
                                  [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                                  [numpy_helper.from_array(weight, "w")])
        compiled = treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
        calls = compiled.profile({"x": rng.standard_normal((1, 64, 28, 28)).astype("float32")})
        (conv,) = [call for call in calls if call.macs]
        assert conv.macs == 64 * 64 * 9 * 28 * 28
        assert conv.mac_share == pytest.approx(36 / 144) or conv.mac_share == pytest.approx(16 / 36)
