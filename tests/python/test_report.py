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


def test_nothing_is_said_of_what_is_not_known_of_open_sizes(model, tmp_path):
    """How many products kernels compute whose sizes are known at run time: neither that there are none, nor a roofline."""
    open_model = onnx.load(model)
    for dim in (2, 3):
        open_model.graph.input[0].type.tensor_type.shape.dim[dim].dim_param = f"size{dim}"
    onnx.save(open_model, tmp_path / "open.onnx")
    assert run("compile", tmp_path / "open.onnx", "-o", tmp_path / "open.so").returncode == 0
    result = run("report", tmp_path / "open.so", "-i", "random", "--input-shapes", "x:[1,3,256,256]", "-o", tmp_path / "open.html")
    assert result.returncode == 0, result.stderr
    text = (tmp_path / "open.html").read_text(encoding="utf-8")
    assert "compute no products" not in text and "element-wise and data movement" not in json.dumps(data_of(tmp_path / "open.html"))
    assert "kernels for open sizes" in json.dumps(data_of(tmp_path / "open.html"))


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
