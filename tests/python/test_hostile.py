# SPDX-License-Identifier: Apache-2.0
"""A part of tests/fuzz/hostile; all of it: tools/hostile_models.py."""
import json
import os
import pathlib
import subprocess
import sys
import time
import types
import zlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import treadle  # noqa: F401  loaded once, before children are forked

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "fuzz"))

import hostile  # noqa: E402
import workers  # noqa: E402

# Each was accepted, gave a wrong answer, or hung.
ONCE_WRONG = """declared_value_as_float64 declared_value_rank_1 declared_output_transposed declared_initializer_input_shape
    declared_output_as_string declared_value_of_branch_output declared_feed_of_unbroadcastable_sizes
    empty_add_no_broadcast_dynamic attr_lstm_lens_beyond attr_gru_lens_negative attr_transpose_negative
    attr_split_more_than_size size_expand_reduced size_fibonacci size_fibonacci_dynamic size_fold_products size_fold_many index_gathernd_batch_sizes
    index_maxunpool_-1 index_nllloss_-1_input index_reversesequence_beyond_input shape_tile_short_input
    shape_split_count_input shape_split_count_dynamic shape_slice_axis_beyond_input shape_slice_axis_twice_input
    shape_slice_smallest_step_input shape_slice_largest_step_dynamic shape_resize_nan_input shape_pad_reflect_far_input
    shape_centercrop_negative_input shape_col2im_input shape_affinegrid_negative_constant number_dft_of_negative
    number_window_negative number_stft_step_zero number_stft_frame_beyond number_melweight empty_argmax_dynamic
    wire_mutant_14 qdq_dequantizelinear_scale_integer_input qdq_dequantizelinear_zero_point_scalar_constant
    qdq_dequantizelinear_of_floats qdq_quantizelinear_of_strings qdq_quantizelinear_to_floats
    qdq_quantizelinear_zero_point_float_input qdq_qlinearmatmul_weight_zero_count_constant
    qdq_qlinearmatmul_data_zero_type_input qdq_qlinearmatmul_scale_integer_input qdq_qlinearconv_weight_empty_input
    qdq_qlinearconv_data_zero_type_constant qdq_matmulinteger_zero_rank qdq_matmulinteger_zero_type
    qdq_convinteger_zero_type qdq_dynamicquantize_integers contrib_matmulnbits_K_huge contrib_matmulnbits_N_huge
    contrib_attention_data_rank contrib_multiheadattention_key_rank contrib_rotaryembedding_position_-1
    contrib_rotaryembedding_position_99 contrib_rotaryembedding_cache_rank contrib_rotaryembedding_cache_empty
    contrib_rotaryembedding_rotary_2_99 contrib_qlinearadd_zero_type contrib_qlinearsigmoid_zero_type
    value_sequence_of_nothing value_sequence_empty_type value_sequence_mixed value_sequence_insert_other
    value_sequence_of_sequences value_sequence_split_matrix value_optional_wrong_type value_scan_input_directions_9
    value_scan_output_directions_-9 value_run_conv_channels index_folded_nllloss
    ml_treeensembleregressor_feature_-1 ml_treeensembleregressor_targets_1099511627776
    ml_treeensembleregressor_targets_4611686018427387904 ml_treeensembleregressor_base_values_count
    ml_treeensembleregressor_data_no_columns ml_treeensembleclassifier_labels_both ml_treeensemble_modes_int64
    ml_treeensemble_splits_of_other_type ml_svmregressor_coefficients_short ml_linearregressor_intercepts_long
    ml_linearclassifier_labels_both ml_labelencoder_tensor_default_type ml_normalizer_rank_3
    ml_arrayfeatureextractor_negative ml_arrayfeatureextractor_negative_constant ml_arrayfeatureextractor_float
    ml_zipmap_labels_both ml_dictvectorizer_of_a_tensor text_cast_beyond_int64 text_cast_nul text_cast_sign
    text_squeeze_of_strings text_regexfullmatch_group_name text_tfidfvectorizer_max_beyond
    text_tfidfvectorizer_indexes_long text_tfidfvectorizer_floats text_if text_if_or_numbers
    text_sequence_and_numbers text_and_numbers_concat text_and_numbers_where text_and_numbers_equal
    text_and_numbers_gather_index text_loop_untyped_3 text_loop_untyped_50 text_loop_becomes_numbers_50 text_fed_longer
    text_fed_numbers text_fed_none old_pad_2_mode old_scan_8_direction_7 old_scan_8_scalar
    new_attention_key_heads_dynamic new_attention_value_heads new_attention_lengths_beyond
    new_attention_lengths_negative new_tensorscatter_index_beyond new_tensorscatter_index_negative
    new_tensorscatter_count new_tensorscatter_int32 new_tensorscatter_float new_tensorscatter_longer
    new_rotaryembedding_position_-1 new_rotaryembedding_positions_batch new_linearattention_state_rank
    new_linearattention_key_rows new_linearattention_value_batch new_causalconvwithstate_state_length
    new_flexattention_type new_flexattention_batch new_swiglu_shapes new_rmsnormalization_scale_rank
    new_dropout_ratio_2 new_dropout_ratio_negative new_maxroipool_batch_beyond new_maxroipool_batch_negative
    new_deformconv_offset_size new_randomnormal_dtype_7 new_randomuniform_dtype_7 new_randomnormallike_of_integers
    new_multinomial_count_4611686018427387904 new_nonmaxsuppression_center_2 new_nonmaxsuppression_count_float
    new_multinomial_count_4611686018427387904 new_tensorscatter_index_wraps""".split()
CASES = {case.name: case for case in hostile.all_cases()}
PART = [name for name in CASES if zlib.crc32(name.encode()) % 12 == 0 and not name.startswith("size_")]


@pytest.mark.parametrize("name", sorted(set(PART + ONCE_WRONG)))
def test_hostile_model(name):
    fault, _ = hostile.in_child(CASES[name], seconds=60)
    assert fault is None


@pytest.mark.parametrize("name", ["new_tensorscatter_good", "new_tensorscatter_circular_beyond"])
def test_rows_are_written_by_the_interpreter(name):
    """Its kernel compares addresses, which the interpreter didn't know."""
    assert hostile.run_case(CASES[name], target="stackvm") is None


def test_the_command_says_what_strings_are(tmp_path):
    """It printed and wrote the bytes that they pass as."""
    program = pathlib.Path(treadle.__file__).parent / "bin" / "treadle"
    (tmp_path / "m.onnx").write_bytes(CASES["text_cast_to_string"].data)
    np.save(tmp_path / "x.npy", np.array([1, -2]))

    def run(*more):
        return subprocess.run([program, "run", tmp_path / "m.onnx", "-i", f"x={tmp_path / 'x.npy'}", *more], text=True,
                              capture_output=True, check=False)

    assert run().stdout.startswith("y0: tensor(string) of 32 bytes; run the model from Python to read it")
    assert json.loads(run("--json").stdout)["outputs"] == [{"name": "y0", "type": "tensor(string)"}]
    refused = run("-o", tmp_path / "y.npz")
    assert refused.returncode == 2 and "output 'y0' is a tensor(string), which files of tensors can't hold" in refused.stderr


def test_cases_run_by_the_command():
    program = str(pathlib.Path(treadle.__file__).parent / "bin" / "treadle")
    names = ("old_pad_2_mode", "new_swiglu_shapes", "new_tensorscatter_good", "ml_zipmap_labels_both")
    assert {name: hostile.run_case(CASES[name], command=program) for name in names} == dict.fromkeys(names)


def mutate(folder, *options):
    """Short form of tools/mutate_models.py."""
    tool = pathlib.Path(__file__).resolve().parents[2] / "tools" / "mutate_models.py"
    result = subprocess.run([sys.executable, str(tool), *map(str, options), "--output", str(folder)],
                            capture_output=True, text=True, timeout=300, check=False,
                            env={**os.environ, "PYTHONPATH": str(pathlib.Path(treadle.__file__).parents[1])})
    assert result.returncode == 0, result.stdout + result.stderr
    assert "refused" in result.stdout


def test_damaged_models_give_results_or_errors(tmp_path):
    mutate(tmp_path, "--count", 40)


def test_damaged_artefacts_give_results_or_errors(tmp_path):
    mutate(tmp_path, "--artefacts", "--count", 40)


def test_damaged_calls_give_results_or_errors(tmp_path):
    mutate(tmp_path, "--calls", "--count", 60)


def test_damaged_pieces_of_models_give_results_or_errors(tmp_path):
    model = onnx.parser.parse_model("""<ir_version: 9, opset_import: ["": 18]> g (float[2, 3, n] x) => (float[a, b, c] y) {
        x0 = Neg (x)
        """ + "\n".join(f"""a{i} = Transpose <perm = [0, 2, 1]> (x{i})
        b{i} = Softmax <axis = 1> (a{i})
        x{i + 1} = Mul (a{i}, b{i})""" for i in range(30)) + "\ny = Relu (x30)}")
    onnx.save(model, tmp_path / "long.onnx")
    mutate(tmp_path, tmp_path / "long.onnx", "--count", 30)


def test_workers_that_hang_or_die_are_replaced(tmp_path):
    """ONNX Runtime ended or stopped mutate_models.py itself, which made graphs with it."""
    program = tmp_path / "w.py"
    program.write_text(f"""import os, sys, time
sys.path.insert(0, {str(pathlib.Path(workers.__file__).parent)!r})
import workers
workers.answer_tasks(lambda task: {{"die": lambda: os.abort(), "hang": lambda: time.sleep(600),
                                   "answer": lambda: task}}[task["what"]]())
""")
    worker = workers.Worker([sys.executable, str(program)], 5, fixed=3)
    assert worker.ask(what="answer") == {"what": "answer", "fixed": 3}
    assert worker.ask(what="die")["kind"] == "crash"
    assert worker.ask(what="hang")["kind"] == "hang"
    assert worker.ask(what="answer") == {"what": "answer", "fixed": 3}
    worker.close()


@pytest.mark.parametrize("busy, fault", [(False, "refused"), (True, "hang")])
def test_limits_of_time_are_of_processor_time(busy, fault):
    """On a busy machine models that take no time hung: the limit was of what passed."""
    start = time.monotonic()

    def wait(_):
        while busy or time.monotonic() < start + 2:
            time.sleep(0 if busy else 0.1)

    case = types.SimpleNamespace(data=b"", files=wait, feeds={}, want="ok", expected=None, size=0)
    assert hostile.in_child(case, seconds=1)[0].startswith(fault)


def test_indices_that_are_numbers_are_refused():
    x = numpy_helper.from_array(np.ones((2, 2)), "x")
    graph = helper.make_graph([helper.make_node("ScatterND", ["a", "x", "x"], ["y"])], "g",
                              [helper.make_tensor_value_info("a", TensorProto.DOUBLE, [2, 2])],
                              [helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)], [x])
    with pytest.raises(treadle.DTypeError, match="ScatterND.*expected integers"):
        treadle.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8))


def test_functions_that_fail_in_one_branch_are_left_again():
    """Calls left by an exception counted as open: those of the other branch were 'nested more than 64 deep'."""
    opsets, depth = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)], 40
    functions = [helper.make_function("local", "F0", ["a", "b"], ["c"], [helper.make_node("MatMul", ["a", "b"], ["c"])], opsets)]
    for k in range(1, depth):
        call = helper.make_node(f"F{k - 1}", ["a", "b"], ["c"], domain="local")
        functions.append(helper.make_function("local", f"F{k}", ["a", "b"], ["c"], [call], opsets))
    info = helper.make_tensor_value_info
    rows = helper.make_graph([helper.make_node("Identity", ["x"], ["r"])], "rows", [], [info("r", TensorProto.FLOAT, None)])
    table = helper.make_graph([helper.make_node("Reshape", ["x", "s"], ["t"])], "table", [], [info("t", TensorProto.FLOAT, None)])
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    graph = helper.make_graph(
        [helper.make_node("If", ["c"], ["v"], then_branch=rows, else_branch=table),
         helper.make_node(f"F{depth - 1}", ["v", "w"], ["y"], domain="local")], "g",
        [info("c", TensorProto.BOOL, []), info("x", TensorProto.FLOAT, [5, 2, 1])], [info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array([5, 2]), "s")])
    model = treadle.compile(helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=9))
    x = np.arange(10, dtype=np.float32).reshape(5, 2, 1)
    np.testing.assert_array_equal(model.run(None, {"c": np.array(False), "x": x})[0], x.reshape(5, 2) @ weights)
    with pytest.raises(treadle.Error, match="this branch can't be run"):
        model.run(None, {"c": np.array(True), "x": x})
