# SPDX-License-Identifier: Apache-2.0
"""Schedules as Graphviz text: contrib.tedd."""
import re

import pytest

import treadle as tvm
from treadle import te
from treadle.contrib import tedd


@pytest.fixture
def schedule():
    a, b = te.placeholder((64, 32), name="A"), te.placeholder((32, 48), name="B")
    k = te.reduce_axis((0, 32), name="k")
    c = te.compute((64, 48), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    d = te.compute((64, 48), lambda i, j: c[i, j] + 1.0, name="D")
    s = te.create_schedule(d.op)
    outer, inner = s[d].split(d.op.axis[0], factor=8)
    s[d].parallel(outer)
    s[d].vectorize(s[d].fuse(inner, d.op.axis[1]))
    s[c].compute_at(s[d], outer)
    return s


def graph(text):
    """(names of nodes, edges between nodes) of a text whose braces and quotes match."""
    assert text.startswith("digraph ") and text.count("{") == text.count("}") and text.count('"') % 2 == 0
    nodes = set(re.findall(r"^\s*(\w+) \[label=", text, re.MULTILINE))
    edges = re.findall(r"^\s*(\w+)(?::\w+)? -> (\w+)(?::\w+)?$", text, re.MULTILINE)
    assert {end for edge in edges for end in edge} <= nodes
    return nodes, edges


def test_tensors_flow_between_stages(schedule):
    text = tedd.viz_dataflow_graph(schedule, output_dot_string=True)
    nodes, edges = graph(text)
    stages = [stage.op.name for stage in schedule.stages]
    c, d = f"Stage_{stages.index('C')}", f"Stage_{stages.index('D')}"
    tensor = f"Tensor_{stages.index('C')}_0"
    assert (c, tensor) in edges and (tensor, d) in edges and len(nodes) == 8
    assert "[64, 48]" in text and "Scope: global" in text


def test_the_tree_says_where_stages_are_computed_and_how_loops_run(schedule, tmp_path):
    assert tedd.viz_schedule_tree(schedule, dot_file_path=tmp_path / "tree.dot") is None
    text = (tmp_path / "tree.dot").read_text()
    _, edges = graph(text)
    stages = [stage.op.name for stage in schedule.stages]
    c, d = stages.index("C"), stages.index("D")
    assert (f"Stage_{d}", "ROOT") in edges
    assert re.search(rf"Stage_{c} -> Stage_{d}:IterVar_{d}_\d+$", text, re.MULTILINE)
    for kind in ("i.outer(kParallelized)", "(kVectorized)", "k(kCommReduce)"):
        assert kind in text


def test_axes_become_others(schedule):
    text = tedd.viz_itervar_relationship_graph(schedule, output_dot_string=True)
    d = [stage.op.name for stage in schedule.stages].index("D")
    assert f"IterVar_{d}_0:itervar -> Split_Relation_{d}_0:Input" in text
    assert f"Fuse_Relation_{d}_1:Fused -> " in text
    assert len(schedule[schedule.stages[d].op].all_iter_vars) == 5  # i, j, i.outer, i.inner, fused


def test_what_stages_say_of_themselves(schedule):
    c, d = (next(s for s in schedule.stages if s.op.name == name) for name in "CD")
    assert c.attach_type == te.Stage.SCOPE and c.attach_stage.same_as(d) and d.attach_type == te.Stage.GROUPROOT
    kinds = {axis.var.name: attr.iter_type for axis, attr in d.iter_var_attrs.items()}
    assert kinds["i.outer"] == tvm.tir.IterVar.Parallelized and tvm.tir.IterVar.Vectorized in kinds.values()


def test_what_isnt_a_schedule_is_refused():
    with pytest.raises(TypeError, match="expected a schedule"):
        tedd.viz_schedule_tree(3)
