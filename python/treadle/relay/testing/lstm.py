# SPDX-License-Identifier: Apache-2.0
"""A long short-term memory network, unrolled."""
from ..._nd import NDArray
from .. import sigmoid, split, tanh, zeros
from ..analysis import free_vars
from ..expr import Call, Expr, Function, Tuple, TupleGetItem, var
from ..scope_builder import ScopeBuilder
from ...ir import IRModule, TensorType, TupleType
from . import layers
from .init import create_workload


def lstm_cell(num_hidden: int, batch_size: int = 1, dtype: str = "float32", name: str = "") -> Expr:
    """A function (input, (hidden, cell), input weight, input bias, hidden weight, hidden bias) -> (output, (hidden,
    cell)). Gates in the order input, forget, new, output."""
    builder = ScopeBuilder()
    state = TensorType((batch_size, num_hidden), dtype)
    weight, bias = TensorType((4 * num_hidden, num_hidden), dtype), TensorType((4 * num_hidden,), dtype)
    inputs, states = var("inputs", state), var("states", TupleType([state, state]))
    i2h_weight, i2h_bias = var("i2h_weight", weight), var("i2h_bias", bias)
    h2h_weight, h2h_bias = var("h2h_weight", weight), var("h2h_bias", bias)
    i2h = builder.let(("i2h", TensorType((batch_size, 4 * num_hidden), dtype)),
                      layers.dense_add_bias(inputs, units=num_hidden * 4, weight=i2h_weight, bias=i2h_bias,
                                            name=f"{name}i2h"))
    h2h = builder.let(("h2h", TensorType((batch_size, 4 * num_hidden), dtype)),
                      layers.dense_add_bias(TupleGetItem(states, 0), units=num_hidden * 4, weight=h2h_weight,
                                            bias=h2h_bias, name=f"{name}h2h"))
    gates = builder.let(("gates", TensorType((batch_size, 4 * num_hidden), dtype)), i2h + h2h)
    pieces = builder.let(("slice_gates", TupleType([state] * 4)), split(gates, 4, axis=1).astuple())

    def gate(label, index, activation):
        return builder.let((label, state), activation(TupleGetItem(pieces, index)))

    in_gate, forget_gate = gate("in_gate", 0, sigmoid), gate("forget_gate", 1, sigmoid)
    in_transform, out_gate = gate("in_transform", 2, tanh), gate("out_gate", 3, sigmoid)
    next_c = builder.let(("next_c", state), forget_gate * TupleGetItem(states, 1) + in_gate * in_transform)
    next_h = builder.let(("next_h", state), out_gate * tanh(next_c))
    builder.ret(Tuple([next_h, Tuple([next_h, next_c])]))
    return Function([inputs, states, i2h_weight, i2h_bias, h2h_weight, h2h_bias], builder.get(),
                    TupleType([state, TupleType([state, state])]))


def get_net(iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32") -> Function:
    """`iterations` steps of one cell on the same input `data`, from a state of zeros; the last output."""
    state = TensorType((batch_size, num_hidden), dtype)
    builder = ScopeBuilder()
    zero = builder.let(("zeros", state), zeros((batch_size, num_hidden), dtype))
    states = builder.let(("init_states", TupleType([state, state])), Tuple([zero, zero]))
    data = var("data", state)
    weights = [var(f"{kind}_{what}", shape=shape, dtype=dtype) for kind in ("i2h", "h2h") for what, shape in
               (("weight", (4 * num_hidden, num_hidden)), ("bias", (4 * num_hidden,)))]
    result = None
    for i in range(iterations):
        cell = builder.let(f"cell_{i}", lstm_cell(num_hidden, batch_size, dtype, f"lstm_{i}_"))
        call = builder.let((f"call_{i}", TupleType([state, TupleType([state, state])])),
                           Call(cell, [data, states, *weights]))
        result = builder.let((f"out_{i}", state), TupleGetItem(call, 0))
        states = builder.let((f"states_{i}", TupleType([state, state])), TupleGetItem(call, 1))
    builder.ret(result)
    net = builder.get()
    return Function(free_vars(net), net)


def get_workload(iterations: int, num_hidden: int, batch_size: int = 1, dtype: str = "float32") -> tuple[IRModule,
                 dict[str, NDArray]]:
    """(module, params) of get_net."""
    return create_workload(get_net(iterations, num_hidden, batch_size, dtype))
