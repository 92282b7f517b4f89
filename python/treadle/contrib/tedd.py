# SPDX-License-Identifier: Apache-2.0
"""Pictures of schedules of tensor expressions, as text in Graphviz's language: the graph of tensors, the tree of stages
and loops, and how axes became others. `dot -Tsvg` draws them."""
import html
import shutil
import subprocess
import textwrap
from typing import Any

from ..error import Error
from ..te.schedule import Fuse, Schedule, Split
from ..tir.expr import IterVar

# How an axis runs: the original's name of the kind, and the colour of its cell.
_KINDS = {
    IterVar.DataPar: ("kDataPar", "#FFFFFF"),
    IterVar.ThreadIndex: ("kThreadIndex", "#5DADE2"),
    IterVar.CommReduce: ("kCommReduce", "#F9E79F"),
    IterVar.Ordered: ("kOrdered", "#E59866"),
    IterVar.Opaque: ("kOpaque", "#B2BABB"),
    IterVar.Unrolled: ("kUnrolled", "#D7BDE2"),
    IterVar.Vectorized: ("kVectorized", "#A9CCE3"),
    IterVar.Parallelized: ("kParallelized", "#F5B7B1"),
    IterVar.Tensorized: ("kTensorized", "#ABEBC6"),
}
_TABLE = '<TABLE BORDER="0" CELLBORDER="1" CELLSPACING="0" CELLPADDING="4">'
_WIDTH = 40


class _Dot:
    """Lines of a directed graph."""

    def __init__(self, name, rankdir):
        self._lines = [f'digraph "{name}" {{', f"  graph [rankdir={rankdir}]"]
        self._inset = "  "

    def node(self, name, label, shape="none"):
        label = label if label.startswith("<") else '"' + label.replace('"', "'").replace("\n", "\\n") + '"'
        self._lines.append(f"{self._inset}{name} [label={label} shape={shape} margin=0]")

    def edge(self, start, end):
        self._lines.append(f"{self._inset}{start} -> {end}")

    def open(self, name, label):
        self._lines.append(f'{self._inset}subgraph "cluster_{name}" {{')
        self._inset += "  "
        self._lines.append(f'{self._inset}label="{label}"')

    def close(self):
        self._inset = self._inset[:-2]
        self._lines.append(self._inset + "}")

    def legend(self):
        rows = "".join(f'<TR><TD BGCOLOR="{colour}"></TD><TD>{name}</TD></TR>' for name, colour in _KINDS.values())
        self.open("legend", "Legend")
        self.node("legend", f"<{_TABLE}{rows}</TABLE>>")
        self.close()

    def text(self):
        return "\n".join([*self._lines, "}", ""])


class _Names:
    """Names of nodes for stages and axes: Stage_0, IterVar_0_1, Tensor_0_0."""

    def __init__(self, sch):
        if not isinstance(sch, Schedule):
            raise TypeError(f"expected a schedule (te.create_schedule), not {sch!r}")
        self.stages = list(sch.stages)
        self._of_axis = [(axis, f"IterVar_{i}_{k}") for i, stage in enumerate(self.stages)
                         for k, axis in enumerate(stage.all_iter_vars)]

    def stage(self, stage):
        return f"Stage_{next(i for i, other in enumerate(self.stages) if other.same_as(stage))}"

    def axis(self, axis):
        return next(name for other, name in self._of_axis if other.same_as(axis))

    def tensor(self, tensor):
        for i, stage in enumerate(self.stages):
            if stage.op.same_as(tensor.op):
                return f"Tensor_{i}_{tensor.value_index}"
        return None  # replaced by a cached one


def _cell(text):
    return "<br/>".join(html.escape(line) for part in str(text).splitlines()
                        for line in textwrap.wrap(part, _WIDTH) or [""])


def _axis_row(stage, axis, name, index):
    attribute = stage.iter_var_attrs.get(axis)
    kind, colour = _KINDS[attribute.iter_type if attribute else axis.iter_type]
    lines = [_cell(f"{axis.var.name}({kind})")]
    if attribute and attribute.bind_thread:
        lines.append(f'<font color="#1F618D">({_cell(attribute.bind_thread)})</font>')
    if attribute and attribute.tensor_intrin is not None:
        lines.append(_cell(f"(tensor_intrin: {attribute.tensor_intrin.name})"))
    extent = "range(N/A)" if axis.dom is None else f"range(min={axis.dom.min}, ext={axis.dom.extent})"
    lines.append(_cell(extent))
    return f'<TR><TD PORT="{name}" BGCOLOR="{colour}">{index}</TD><TD>{"<br/>".join(lines)}</TD></TR>'


def _body(op):
    return "\n".join(str(value) for value in getattr(op, "body", None) or [])


def _deliver(text, show_svg, dot_file_path, output_dot_string):
    if dot_file_path:
        with open(dot_file_path, "w", encoding="utf-8") as file:
            file.write(text)
    if show_svg:
        if shutil.which("dot") is None:
            raise Error("show_svg needs the program 'dot' of Graphviz, which isn't installed; "
                        "dot_file_path writes the text that it draws")
        from IPython.display import SVG, display  # type: ignore[import-not-found]

        display(SVG(subprocess.run(["dot", "-Tsvg"], input=text.encode(), capture_output=True, check=True).stdout))
    return text if output_dot_string else None


def viz_dataflow_graph(sch: Any, show_svg: bool = False, dot_file_path: str = "", output_dot_string: bool = False) -> Any:
    """Stages and the tensors between them. Written to `dot_file_path`, shown in a notebook (`show_svg`), returned
    (`output_dot_string`)."""
    names, dot = _Names(sch), _Dot("Dataflow Graph", "LR")
    for stage in names.stages:
        me = names.stage(stage)
        inputs, outputs = list(stage.op.input_tensors), [stage.op.output(i) for i in range(stage.op.num_outputs)]
        rows = []
        for i in range(max(1, len(inputs), len(outputs))):
            into = f'<TD BGCOLOR="lightgrey" PORT="I_{i}">{i}</TD>' if i < len(inputs) else "<TD></TD>"
            out = f'<TD BGCOLOR="lightgrey" PORT="O_{i}">{i}</TD>' if i < len(outputs) else "<TD></TD>"
            middle = _cell(stage.op.name) + "<br/>" + _cell(f"Scope: {stage.scope}") if i == 0 else ""
            rows.append(f"<TR>{into}<TD>{middle}</TD>{out}</TR>")
        dot.node(me, f"<{_TABLE}{''.join(rows)}</TABLE>>")
        for i, tensor in enumerate(outputs):
            shape = ", ".join(str(d) for d in tensor.shape)
            dot.node(names.tensor(tensor), f"[{shape}]\n{tensor.dtype}", "oval")
            dot.edge(f"{me}:O_{i}", names.tensor(tensor))
    for stage in names.stages:
        for i, tensor in enumerate(stage.op.input_tensors):
            if names.tensor(tensor) is not None:
                dot.edge(names.tensor(tensor), f"{names.stage(stage)}:I_{i}")
    return _deliver(dot.text(), show_svg, dot_file_path, output_dot_string)


def viz_schedule_tree(sch: Any, show_svg: bool = False, dot_file_path: str = "", output_dot_string: bool = False) -> Any:
    """Each stage with its loops from the outermost inwards, and where it is computed. Arguments as of
    viz_dataflow_graph."""
    names, dot = _Names(sch), _Dot("Schedule Tree", "BT")
    dot.legend()
    for stage in names.stages:
        title = f'{_cell(stage.op.name)}<br/>{_cell(f"Scope: {stage.scope}")}'
        rows = [f'<TR><TD BGCOLOR="lightgrey" COLSPAN="2" PORT="stage">{title}</TD></TR>']
        rows += [_axis_row(stage, axis, names.axis(axis), i) for i, axis in enumerate(stage.leaf_iter_vars)]
        if _body(stage.op):
            rows.append(f'<TR><TD COLSPAN="2">{_cell(_body(stage.op))}</TD></TR>')
        dot.node(names.stage(stage), f"<{_TABLE}{''.join(rows)}</TABLE>>")
    for stage in names.stages:
        at = stage.attach_ivar
        where = "ROOT" if at is None else f"{names.stage(stage.attach_stage)}:{names.axis(at)}"
        dot.edge(names.stage(stage), where)
    dot.node("ROOT", "ROOT", "oval")
    return _deliver(dot.text(), show_svg, dot_file_path, output_dot_string)


def viz_itervar_relationship_graph(sch: Any, show_svg: bool = False, dot_file_path: str = "",
                                   output_dot_string: bool = False) -> Any:
    """How the axes of each stage became others, by splits and fusions. Arguments as of viz_dataflow_graph."""
    names, dot = _Names(sch), _Dot("IterVar Relationship Graph", "TB")
    dot.legend()
    for number, stage in enumerate(names.stages):
        dot.open(names.stage(stage), stage.op.name)
        leaves = list(stage.leaf_iter_vars)
        for axis in stage.all_iter_vars:
            index = next((i for i, leaf in enumerate(leaves) if leaf.same_as(axis)), -1)
            dot.node(names.axis(axis), f"<{_TABLE}{_axis_row(stage, axis, 'itervar', index)}</TABLE>>")
        for k, relation in enumerate(stage.relations):
            me = f"{type(relation).__name__}_Relation_{number}_{k}"
            before, after = _ends(relation)
            width = max(len(before), len(after))
            cells = ["".join(f'<TD BGCOLOR="lightgrey" PORT="{p}">{p}</TD>' for p in ports) +
                     "<TD></TD>" * (width - len(ports)) for ports in (before, after)]
            dot.node(me, f'<{_TABLE}<TR>{cells[0]}</TR><TR><TD COLSPAN="{width}" PORT="relation">'
                         f"{type(relation).__name__}</TD></TR><TR>{cells[1]}</TR></TABLE>>")
            for port, axis in before.items():
                dot.edge(f"{names.axis(axis)}:itervar", f"{me}:{port}")
            for port, axis in after.items():
                dot.edge(f"{me}:{port}", f"{names.axis(axis)}:itervar")
        dot.close()
    return _deliver(dot.text(), show_svg, dot_file_path, output_dot_string)


def _ends(relation):
    """The axes before and after a relation by the names of their ports."""
    if isinstance(relation, Split):
        return {"Input": relation.parent}, {"Outer": relation.outer, "Inner": relation.inner}
    assert isinstance(relation, Fuse)
    if len(relation.axes) == 2:
        return {"Outer": relation.outer, "Inner": relation.inner}, {"Fused": relation.fused}
    return {f"Axis{i}": axis for i, axis in enumerate(relation.axes)}, {"Fused": relation.fused}
