# SPDX-License-Identifier: Apache-2.0
"""The ways to let a graph grow, and how likely each is."""
RULES = []


def rule(weight=1, pictures=1, rows=None, few_bits=None):
    """Registers a function of a Graph. weight: in the profile "any"; pictures: in that of convolutions; rows: in that of long
    rows, where none is given that of "any"; few_bits: in that of quantised graphs, where none is given that of pictures."""
    def register(function):
        RULES.append((function, {"any": weight, "pictures": pictures, "rows": weight if rows is None else rows,
                                 "few_bits": pictures if few_bits is None else few_bits}))
        return function
    return register


def grow(g):
    """Adds a node or a few; Refused where what was drawn has no operands."""
    function = g.random.choices([r for r, _ in RULES], [weights[g.profile] for _, weights in RULES])[0]
    return function(g)
