# SPDX-License-Identifier: Apache-2.0
"""Properties of operators for a while."""
from typing import Any

from ...ir import Op, register_op_attr


class TempOpAttr:
    """A context manager in which an operator has a property, and its former one afterwards."""

    def __init__(self, op_name: str, attr_key: str, attr_value: Any) -> None:
        self.op = Op.get(op_name)
        self.attr_key, self.attr_value = attr_key, attr_value

    def __enter__(self):
        self.older = self.op.get_attr(self.attr_key)
        self.op.reset_attr(self.attr_key)
        register_op_attr(self.op.name, self.attr_key, self.attr_value)
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        self.op.reset_attr(self.attr_key)
        if self.older is not None:
            register_op_attr(self.op.name, self.attr_key, self.older)
