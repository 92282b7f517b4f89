# SPDX-License-Identifier: Apache-2.0
"""Fusion as it is described, written down once more in the plainest way: paths are enumerated, nothing is incremental.
Groups are compared with those of the pass."""
import collections

import treadle
from treadle import relay

ELEMWISE, BROADCAST, INJECTIVE, REDUCE, COMPLEX, TUPLE, OPAQUE = 0, 1, 2, 3, 4, 7, 8


class Node:
    """A node of the forward graph."""

    def __init__(self, expr):
        self.expr, self.pattern, self.uses, self.extern, self.index = expr, OPAQUE, [], False, -1


def kind(expr):
    return type(expr).__name__


def op_name(expr):
    return expr.op.name if kind(expr) == "Call" and kind(expr.op) == "Op" else None


def operands(expr):
    if kind(expr) == "Call":
        return list(expr.args) if op_name(expr) else []
    if kind(expr) == "Tuple":
        return list(expr.fields)
    return [expr.tuple_value] if kind(expr) == "TupleGetItem" else []


class Graph:
    """Nodes in the order in which a depth-first walk leaves them."""

    def __init__(self, function):
        self.known, self.order, self.entered = {}, [], set()
        self.at(function).extern = True
        self.walk(function)

    def at(self, expr):
        return self.known.setdefault(expr, Node(expr))

    def outside(self, *exprs):
        for expr in exprs:
            self.at(expr).extern = True
        for expr in exprs:
            self.walk(expr)

    def walk(self, expr):
        if expr in self.entered:
            return
        self.entered.add(expr)
        node = self.at(expr)
        if kind(expr) == "Function":
            return self.outside(*expr.params, expr.body)
        if kind(expr) in ("Op", "GlobalVar"):
            return None
        if kind(expr) == "Let":
            self.outside(expr.var, expr.value, expr.body)
        elif kind(expr) == "If":
            self.outside(expr.cond, expr.true_branch, expr.false_branch)
        elif kind(expr) == "Call":
            self.call(node)
        elif kind(expr) == "Tuple":
            node.pattern = TUPLE
            for field in expr.fields:
                self.at(field).uses.append((node, INJECTIVE))
            for field in expr.fields:
                self.walk(field)
        elif kind(expr) == "TupleGetItem":
            node.pattern = INJECTIVE
            self.at(expr.tuple_value).uses.append((node, INJECTIVE))
            self.walk(expr.tuple_value)
        elif kind(expr) == "Constant" and not expr.data.shape:
            node.pattern = ELEMWISE
        node.index = len(self.order)
        self.order.append(node)
        return None

    def call(self, node):
        expr = node.expr
        if op_name(expr):
            node.pattern = expr.op.get_attr("TOpPattern")
        else:
            self.outside(expr.op)
        for arg in expr.args:
            pattern = node.pattern
            if pattern == BROADCAST and str(arg.checked_type) == str(expr.checked_type):
                pattern = ELEMWISE
            elif pattern == BROADCAST and hasattr(arg.checked_type, "shape"):
                same = [str(d) for d in arg.checked_type.shape] == [str(d) for d in expr.checked_type.shape]
                pattern = ELEMWISE if same else BROADCAST
            self.at(arg).uses.append((node, pattern))
        for arg in expr.args:
            self.walk(arg)


def post_dominators(order):
    """For each node its immediate post-dominator, and the highest pattern of the edges up to it."""
    above = {}

    def chain(node):
        while node is not None:
            yield node
            node = above[node][0]

    for node in reversed(order):
        if node.extern or not node.uses:
            above[node] = (None, OPAQUE)
            continue
        common = None
        for consumer, _ in node.uses:
            ancestors = list(chain(consumer))
            common = ancestors if common is None else [a for a in common if a in ancestors]
        sink = common[0] if common else None
        pattern = max(edge for _, edge in node.uses)
        for consumer, _ in node.uses:
            for step in chain(consumer):
                if step is sink:
                    break
                pattern = max(pattern, above[step][1])
        above[node] = (sink, pattern)
    return above


class Groups:
    """The three phases."""

    def __init__(self, graph, level, max_depth):
        self.order, self.max_depth = graph.order, max_depth
        self.parent = {node: node for node in self.order}
        self.pattern = {node: node.pattern for node in self.order}
        self.count = {node: 1 for node in self.order}
        self.above = post_dominators(self.order)
        for phase in range(3 if level else 0):
            for node in self.order:
                self.visit(node, phase)

    def root(self, node):
        while self.parent[node] is not node:
            node = self.parent[node]
        return node

    def between(self, node, sink):
        seen, stack = [], [consumer for consumer, _ in node.uses]
        while stack:
            step = stack.pop()
            if step is not sink and step not in seen:
                seen.append(step)
                stack += [consumer for consumer, _ in step.uses]
        return seen

    def visit(self, node, phase):
        sink, reached = self.above[node]
        own = self.pattern[node]
        if own == OPAQUE or sink is None:
            return
        path = self.between(node, sink)
        if self.count[self.root(sink)] + sum(self.count[n] for n in [node, *path]) > self.max_depth:
            return
        inner = max([self.pattern[self.root(n)] for n in path], default=ELEMWISE)
        last = self.pattern[self.root(sink)]
        if phase == 2:
            into_tuple = self.pattern[sink] == TUPLE and last <= INJECTIVE
            if own <= INJECTIVE and into_tuple and inner <= INJECTIVE:
                self.merge(node, path, sink)
            return
        if self.root(node) is self.root(sink) or self.pattern[sink] == TUPLE:
            return
        if own == COMPLEX:
            fits = phase == 0 and reached == ELEMWISE and max(inner, last) <= BROADCAST
        elif own <= BROADCAST:
            fits = reached <= REDUCE and inner <= INJECTIVE and last <= COMPLEX
        else:
            fits = own in (INJECTIVE, TUPLE) and phase == 1 and max(inner, last) <= INJECTIVE
        if fits:
            self.merge(node, path, sink)

    def merge(self, node, path, sink):
        for each in [node, *path]:
            child, target = self.root(each), self.root(sink)
            if child is target:
                continue
            self.parent[child] = target
            self.count[target] += self.count[child]
            if self.pattern[child] == COMPLEX:
                self.pattern[target] = COMPLEX


def expected(function, level, max_depth):
    """The sorted operator names and the number of parameters of each kernel."""
    graph = Graph(function)
    groups = Groups(graph, level, max_depth)
    members = collections.defaultdict(list)
    for node in graph.order:
        members[groups.root(node)].append(node)

    def source(expr):
        while op_name(expr) == "annotation.stop_fusion":
            expr = expr.args[0]
        return expr

    kernels = []
    for root, nodes in members.items():
        names = [op_name(node.expr) for node in nodes if op_name(node.expr)]
        names = [name for name in names if name != "annotation.stop_fusion"]
        inputs = set()
        for node in nodes:
            if node is root and kind(node.expr) == "Tuple":
                continue
            inputs |= {source(arg) for arg in operands(node.expr) if groups.root(graph.at(arg)) is not root}
        if names:
            kernels.append((tuple(sorted(names)), len(inputs)))
    return sorted(kernels)


def actual(function, level, max_depth):
    """The same of what the pass makes."""
    kernels = []

    def collect(expr):
        if kind(expr) != "Call" or kind(expr.op) != "Function" or "Primitive" not in expr.op.attrs.keys():
            return
        names = []
        relay.analysis.post_order_visit(expr.op.body, lambda e: names.append(op_name(e)) if op_name(e) else None)
        if names:
            kernels.append((tuple(sorted(names)), len(expr.op.params)))

    with treadle.transform.PassContext(opt_level=3, config={"relay.FuseOps.max_depth": max_depth}):
        module = relay.transform.FuseOps(level)(treadle.IRModule.from_expr(function))
    relay.analysis.post_order_visit(module["main"], collect)
    return sorted(kernels)
