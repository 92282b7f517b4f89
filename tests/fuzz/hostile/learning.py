# SPDX-License-Identifier: Apache-2.0
"""Operators of ai.onnx.ml: trees that aren't, tables whose columns differ in length, labels of two types."""
import numpy as np

from .base import f32, i64, one, tensor

X = {"x": f32(4, 3)}
HUGE = 1 << 62


def ml(name, op, feeds, want, outputs=1, version=3, **more):
    yield one(f"ml_{op.lower()}_{name}", op, feeds, want, outputs=outputs, domain="ai.onnx.ml", version=version, **more)


TREE = {"nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0]}
TARGETS = {"target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0],
           "n_targets": 1}
CLASSES = {"class_treeids": [0, 0], "class_nodeids": [1, 2], "class_ids": [0, 1], "class_weights": [1.0, 2.0],
           "classlabels_int64s": [10, 20]}


def chain(depth):
    """Each node's false branch is the next one."""
    count = 2 * depth + 1
    return {"nodes_treeids": [0] * count, "nodes_nodeids": list(range(count)), "nodes_featureids": [0] * count,
            "nodes_values": [float(-i) for i in range(count)],
            "nodes_modes": ["BRANCH_GTE" if i % 2 == 0 and i < 2 * depth else "LEAF" for i in range(count)],
            "nodes_truenodeids": [i + 1 if i % 2 == 0 and i < 2 * depth else 0 for i in range(count)],
            "nodes_falsenodeids": [i + 2 if i % 2 == 0 and i < 2 * depth else 0 for i in range(count)]}


def tree_cases():
    def tree(name, want, feeds=None, **change):
        feeds = X if feeds is None else feeds
        yield from ml(name, "TreeEnsembleRegressor", feeds, want, **{**TREE, **TARGETS, **change})

    yield from tree("good", "ok")
    for feature in (-1, 3, 99, 1 << 40, -(1 << 63)):
        yield from tree(f"feature_{feature}", "error", nodes_featureids=[feature, 0, 0])
    for name, true, false in (("self", [0, 0, 0], [2, 0, 0]), ("nowhere", [7, 0, 0], [2, 0, 0]), ("negative", [-1, 0, 0], [2, 0, 0]),
                              ("huge", [HUGE, 0, 0], [2, 0, 0]), ("both_same", [1, 0, 0], [1, 0, 0])):
        yield from tree(f"child_{name}", "either" if name == "both_same" else "error", nodes_truenodeids=true, nodes_falsenodeids=false)
    ring = {"nodes_modes": ["BRANCH_LEQ", "BRANCH_LT", "LEAF"], "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 2, 0]}
    yield from tree("ring_with_root", "error", **ring)
    yield from tree("ring_of_all", "error", nodes_modes=["BRANCH_LEQ"] * 3, nodes_truenodeids=[1, 2, 0], nodes_falsenodeids=[1, 2, 0])
    yield from tree("two_roots", "either", nodes_modes=["LEAF"] * 3)
    for key in TREE:
        yield from tree(f"{key}_short", "error", **{key: TREE[key][:2]})
        yield from tree(f"{key}_long", "error", **{key: TREE[key] + TREE[key][:1]})
    for key in list(TARGETS)[:4]:
        yield from tree(f"{key}_short", "error", **{key: TARGETS[key][:1]})
    for name, mode in (("unknown", "BRANCH_MAYBE"), ("empty", ""), ("member", "BRANCH_MEMBER"), ("long", "B" * 100000)):
        yield from tree(f"mode_{name}", "error", nodes_modes=[mode, "LEAF", "LEAF"])
    for target in (1, -1, 1 << 40):
        yield from tree(f"target_{target}", "error", target_ids=[0, target])
    for count in (0, -1, 1 << 40, HUGE):
        yield from tree(f"targets_{count}", "error", n_targets=count)
    yield from tree("target_of_no_node", "either", target_nodeids=[1, 9])
    yield from tree("target_of_no_tree", "either", target_treeids=[0, 5])
    yield from tree("target_at_branch", "either", target_nodeids=[0, 2])
    yield from tree("node_twice", "error", nodes_nodeids=[0, 1, 1])
    yield from tree("ids_wide", "ok", nodes_nodeids=[-5, HUGE, 7], nodes_truenodeids=[HUGE, 0, 0], nodes_falsenodeids=[7, 0, 0],
                    target_nodeids=[HUGE, 7])
    yield from tree("tree_id_negative", "ok", nodes_treeids=[-3] * 3, target_treeids=[-3, -3])
    for name, text in (("unknown", "SOFTMIN"), ("probit", "PROBIT"), ("lower", "softmax")):
        yield from tree(f"post_{name}", "either" if name == "probit" else "error", post_transform=text)
    yield from tree("aggregate_unknown", "error", aggregate_function="MEDIAN")
    yield from tree("base_values_count", "error", base_values=[1.0, 2.0, 3.0])
    yield from tree("empty", "either", **{key: [] for key in TREE}, **{key: [] for key in list(TARGETS)[:4]})
    yield from tree("values_twice", "either", version=3, nodes_values_as_tensor=tensor(np.zeros(3), ""))
    yield from tree("data_vector", "either", feeds={"x": f32(3)})
    yield from tree("data_rank_3", "error", feeds={"x": f32(2, 2, 3)})
    yield from tree("data_scalar", "error", feeds={"x": np.float32(1)})
    yield from tree("data_no_rows", "ok", feeds={"x": f32(0, 3)}, expected=[np.zeros((0, 1), "float32")])
    yield from tree("data_no_columns", "error", feeds={"x": f32(4, 0)})
    yield from tree("data_narrow", "error", feeds={"x": f32(4, 1)})
    yield from tree("data_narrow_dynamic", "error", feeds={"x": f32(4, 1)}, dynamic=True)
    yield from tree("data_strings", "error", feeds={"x": np.array([["a"] * 3], object)})
    x = {"x": np.array([[0, np.nan, 0], [0, np.inf, 0], [0, -np.inf, 0]], "float32")}
    yield from tree("data_nan", "ok", feeds=x, expected=[np.array([[2], [2], [1]], "float32")])
    yield from tree("data_nan_tracked", "ok", feeds=x, nodes_missing_value_tracks_true=[1, 0, 0], expected=[np.array([[1], [2], [1]], "float32")])
    yield from tree("tracked_short", "error", nodes_missing_value_tracks_true=[1])
    yield from tree("threshold_nan", "ok", nodes_values=[float("nan"), 0.0, 0.0], expected=[np.full((4, 1), 2, "float32")])
    yield from tree("weight_nan", "either", target_weights=[float("nan"), float("inf")])
    deep = chain(3000)
    leaves = [i for i, mode in enumerate(deep["nodes_modes"]) if mode == "LEAF"]
    values = {"target_treeids": [0] * len(leaves), "target_nodeids": leaves, "target_ids": [0] * len(leaves),
              "target_weights": [float(i) for i in leaves]}
    yield from tree("chain_3000", "either", feeds={"x": np.array([[1], [-7.5], [-1e9]], "float32")}, **deep, **values,
                    expected=[np.array([[1], [17], [6000]], "float32")])

    def classes(name, want, feeds=None, **change):
        yield from ml(name, "TreeEnsembleClassifier", X if feeds is None else feeds, want, 2, **{**TREE, **CLASSES, **change})

    yield from classes("good", "ok")
    for label in (2, -1, 1 << 40):
        yield from classes(f"class_{label}", "error", class_ids=[0, label])
    yield from classes("labels_none", "error", classlabels_int64s=[])
    yield from classes("labels_both", "error", classlabels_strings=["a", "b"])
    yield from classes("labels_short", "error", classlabels_int64s=[10])
    yield from classes("labels_twice", "either", classlabels_int64s=[10, 10])
    yield from classes("base_values_count", "error", base_values=[1.0] * 5)
    yield from classes("weights_short", "error", class_weights=[1.0])
    yield from classes("ring", "error", **ring)
    yield from classes("no_rows", "either", feeds={"x": f32(0, 3)})


def ensemble_cases():
    floats, modes = lambda *v: tensor(np.array(v, "float32"), ""), lambda *v: tensor(np.array(v, "uint8"), "")  # noqa: E731
    good = {"tree_roots": [0], "nodes_featureids": [1], "nodes_splits": floats(0.5), "nodes_modes": modes(0),
            "nodes_truenodeids": [0], "nodes_falsenodeids": [1], "nodes_trueleafs": [1], "nodes_falseleafs": [1],
            "leaf_targetids": [0, 0], "leaf_weights": floats(1, 2), "n_targets": 1}

    def ensemble(name, want, feeds=None, **change):
        yield from ml(name, "TreeEnsemble", X if feeds is None else feeds, want, version=5, **{**good, **change})

    yield from ensemble("good", "ok")
    for root in (1, -1, HUGE):
        yield from ensemble(f"root_{root}", "error", tree_roots=[root])
    for leaf in (2, -1, HUGE):
        yield from ensemble(f"leaf_{leaf}", "error", nodes_falsenodeids=[leaf])
    yield from ensemble("itself", "error", nodes_trueleafs=[0])
    yield from ensemble("trueleafs_2", "either", nodes_trueleafs=[2])
    for mode in (6, 7, 255):
        yield from ensemble(f"mode_{mode}", "error", nodes_modes=modes(mode))
    yield from ensemble("modes_int64", "error", nodes_modes=tensor(i64(0).reshape(1), ""))
    yield from ensemble("modes_short", "error", nodes_modes=modes())
    yield from ensemble("splits_of_other_type", "error", nodes_splits=tensor(np.array([0.5]), ""))
    yield from ensemble("splits_long", "error", nodes_splits=floats(0.5, 1))
    yield from ensemble("weights_long", "error", leaf_weights=floats(1, 2, 3))
    for target in (1, -1, HUGE):
        yield from ensemble(f"target_{target}", "error", leaf_targetids=[0, target])
    for key in ("aggregate_function", "post_transform"):
        for value in (-1, 9, HUGE):
            yield from ensemble(f"{key}_{value}", "error", **{key: value})
    yield from ensemble("member_without_values", "error", nodes_modes=modes(6))
    yield from ensemble("member_values_nan_end", "either", nodes_modes=modes(6), membership_values=floats(1, 2))
    yield from ensemble("no_leaves", "error", leaf_targetids=[], leaf_weights=floats())
    yield from ensemble("feature_3", "error", nodes_featureids=[3])
    yield from ensemble("feature_3_dynamic", "error", nodes_featureids=[3], dynamic=True)


def support_cases():
    good = {"kernel_type": "RBF", "kernel_params": [0.5, 0.0, 3.0], "coefficients": [1.0, -1.0], "rho": [0.25],
            "support_vectors": [0.0, 1, 2, 3, 4, 5], "n_supports": 2}

    def regressor(name, want, feeds=None, **change):
        yield from ml(name, "SVMRegressor", X if feeds is None else feeds, want, version=1, **{**good, **change})

    yield from regressor("good", "ok")
    for count in (3, -1, HUGE, 1):
        yield from regressor(f"supports_{count}", "error", n_supports=count)
    yield from regressor("vectors_odd", "error", support_vectors=[1.0] * 5)
    yield from regressor("vectors_none", "error", support_vectors=[])
    yield from regressor("coefficients_short", "error", coefficients=[1.0])
    yield from regressor("coefficients_none", "error", coefficients=[])
    yield from regressor("rho_none", "error", rho=[])
    yield from regressor("kernel_unknown", "error", kernel_type="GAUSS")
    for count in (0, 1, 2, 5):
        yield from regressor(f"kernel_params_{count}", "either" if count in (0, 5) else "error", kernel_params=[0.5] * count)
    yield from regressor("narrow", "error", feeds={"x": f32(4, 2)})
    yield from regressor("rank_3", "error", feeds={"x": f32(1, 4, 3)})
    yield from regressor("narrow_dynamic", "error", feeds={"x": f32(4, 2)}, dynamic=True)
    yield from regressor("post_unknown", "error", post_transform="SQUARE")
    good = {**good, "vectors_per_class": [1, 1], "classlabels_ints": [3, 5]}
    del good["n_supports"]

    def classifier(name, want, feeds=None, **change):
        yield from ml(name, "SVMClassifier", X if feeds is None else feeds, want, 2, version=1, **{**good, **change})

    yield from classifier("good", "either")
    for name, counts in (("sum_beyond", [1, 5]), ("negative", [3, -1]), ("huge", [HUGE, HUGE]), ("wraps", [HUGE, -HUGE + 2]), ("three", [1, 1, 0])):
        yield from classifier(f"per_class_{name}", "error", vectors_per_class=counts)
    yield from classifier("labels_three", "error", classlabels_ints=[1, 2, 3])
    yield from classifier("labels_none", "error", classlabels_ints=[])
    yield from classifier("prob_a_alone", "error", prob_a=[1.0])
    yield from classifier("prob_short", "error", prob_a=[], prob_b=[1.0])
    yield from classifier("rho_none", "error", rho=[])
    yield from classifier("coefficients_short", "error", coefficients=[1.0])
    yield from classifier("narrow", "error", feeds={"x": f32(4, 2)})


def linear_cases():
    yield from ml("good", "LinearRegressor", X, "ok", coefficients=[1.0, 2, 3], intercepts=[0.5], targets=1)
    for name, change in {"coefficients_short": {"coefficients": [1.0, 2]}, "coefficients_none": {"coefficients": []},
                         "targets_0": {"targets": 0}, "targets_negative": {"targets": -1}, "targets_huge": {"targets": HUGE},
                         "targets_2": {"targets": 2}, "intercepts_long": {"intercepts": [1.0, 2]}, "post": {"post_transform": "NO"}}.items():
        yield from ml(name, "LinearRegressor", X, "error", **{"coefficients": [1.0, 2, 3], "intercepts": [0.5], **change})
    good = {"coefficients": [1.0] * 6, "intercepts": [0.5, 1], "classlabels_ints": [1, 2]}
    yield from ml("good", "LinearClassifier", X, "ok", 2, **good)
    for name, change in {"coefficients_odd": {"coefficients": [1.0] * 5}, "intercepts_long": {"intercepts": [1.0] * 3},
                         "labels_none": {"classlabels_ints": []}, "labels_three": {"classlabels_ints": [1, 2, 3]},
                         "post": {"post_transform": "X"}, "coefficients_none": {"coefficients": []}}.items():
        yield from ml(name, "LinearClassifier", X, "error", 2, **{**good, **change})
    yield from ml("narrow", "LinearClassifier", {"x": f32(4, 2)}, "error", 2, **good)
    yield from ml("narrow_dynamic", "LinearClassifier", {"x": f32(4, 2)}, "error", 2, dynamic=True, **good)
    yield from ml("labels_both", "LinearClassifier", X, "error", 2, classlabels_strings=["a", "b"], **good)


def table_cases():
    ids, words = {"x": i64(1, 2, 9)}, {"x": np.array(["a", "b", "?"], object)}
    yield from ml("good", "LabelEncoder", ids, "ok", keys_int64s=[1, 2], values_int64s=[10, 20], default_int64=-7)
    for name, change in {"values_short": {"values_int64s": [10]}, "values_none": {"values_int64s": []}, "keys_both": {"keys_strings": ["a", "b"]},
                         "values_both": {"values_strings": ["a", "b"]}}.items():
        yield from ml(name, "LabelEncoder", ids, "error", version=2, **{"keys_int64s": [1, 2], "values_int64s": [10, 20], **change})
    yield from ml("keys_of_other_type", "LabelEncoder", words, "error", version=2, keys_int64s=[1, 2], values_int64s=[10, 20])
    yield from ml("nothing", "LabelEncoder", ids, "error", version=2)
    yield from ml("keys_twice", "LabelEncoder", ids, "either", version=2, keys_int64s=[1, 1], values_int64s=[10, 20])
    yield from ml("nan_key", "LabelEncoder", {"x": np.array([np.nan, 1], "float32")}, "ok", version=2, keys_floats=[float("nan"), 1.0],
                  values_int64s=[10, 20], expected=[i64(10, 20)])
    one_of = tensor(np.array([1, 2], "int64"), "")
    yield from ml("tensor_short", "LabelEncoder", ids, "error", version=4, keys_tensor=one_of, values_tensor=tensor(i64(10).reshape(1), ""),
                  default_tensor=tensor(i64(-7).reshape(1), ""))
    yield from ml("tensor_default_type", "LabelEncoder", ids, "error", version=4, keys_tensor=one_of, values_tensor=one_of,
                  default_tensor=tensor(np.float32([1]), ""))
    yield from ml("tensor_default_two", "LabelEncoder", ids, "error", version=4, keys_tensor=one_of, values_tensor=one_of, default_tensor=one_of)
    yield from ml("tensor_key_type", "LabelEncoder", ids, "error", version=4, keys_tensor=tensor(np.float32([1, 2]), ""), values_tensor=one_of,
                  default_tensor=tensor(i64(-7).reshape(1), ""))
    yield from ml("unknown_0", "OneHotEncoder", ids, "error", cats_int64s=[1, 2], zeros=0)
    yield from ml("unknown_1", "OneHotEncoder", ids, "ok", cats_int64s=[1, 2], zeros=1)
    yield from ml("no_categories", "OneHotEncoder", ids, "error")
    yield from ml("both", "OneHotEncoder", ids, "error", cats_int64s=[1, 2], cats_strings=["a"])
    yield from ml("strings_of_numbers", "OneHotEncoder", ids, "error", cats_strings=["a"])
    yield from ml("twice", "OneHotEncoder", ids, "either", cats_int64s=[1, 1])
    yield from ml("good", "CategoryMapper", words, "ok", version=1, cats_int64s=[1, 2], cats_strings=["a", "b"], default_int64=-5,
                  expected=[i64(1, 2, -5)])
    yield from ml("short", "CategoryMapper", words, "error", version=1, cats_int64s=[1], cats_strings=["a", "b"])
    yield from ml("none", "CategoryMapper", words, "error", version=1)
    yield from ml("floats", "CategoryMapper", X, "error", version=1, cats_int64s=[1, 2], cats_strings=["a", "b"])
    for name, values in (("two", [1.0, 2]), ("none", []), ("four", [1.0] * 4)):
        yield from ml(f"values_{name}", "Imputer", X, "error", version=1, imputed_value_floats=values, replaced_value_float=0.0)
    yield from ml("of_integers", "Imputer", X, "error", version=1, imputed_value_int64s=[1], replaced_value_int64=0)
    yield from ml("nan", "Imputer", {"x": np.float32([[np.nan, 1]])}, "ok", version=1, imputed_value_floats=[5.0],
                  replaced_value_float=float("nan"), expected=[np.float32([[5, 1]])])
    for name, change in {"offset_two": {"offset": [1.0, 2]}, "scale_two": {"scale": [1.0, 2]}, "offset_none": {"offset": []},
                         "lengths": {"offset": [1.0], "scale": [1.0, 2, 3]}}.items():
        yield from ml(name, "Scaler", X, "either" if name in ("offset_none", "lengths") else "error", version=1,
                      **{"offset": [0.5], "scale": [2.0], **change})
    yield from ml("norm_unknown", "Normalizer", X, "error", version=1, norm="L7")
    yield from ml("zeros", "Normalizer", {"x": np.zeros((2, 3), "float32")}, "either", version=1, norm="L2")
    yield from ml("rank_3", "Normalizer", {"x": f32(1, 2, 3)}, "either", version=1, norm="L1")
    yield from ml("nan", "Binarizer", {"x": np.float32([[np.nan, 1, -1]])}, "ok", version=1, threshold=0.0)
    for name, sizes in (("short", [3]), ("negative", [3, -1]), ("beyond", [3, 9]), ("huge", [HUGE, HUGE])):
        yield from ml(f"sizes_{name}", "FeatureVectorizer", {"a": f32(2, 3), "b": f32(2, 1)}, "error" if name != "beyond" else "either",
                      version=1, inputdimensions=sizes)
    yield from ml("rows_differ", "FeatureVectorizer", {"a": f32(2, 3), "b": f32(3, 1)}, "error", version=1, inputdimensions=[3, 1])
    for name, at in (("beyond", i64(3).reshape(1)), ("negative", i64(-1).reshape(1)), ("huge", i64(HUGE).reshape(1)), ("none", i64(np.array([]))),
                     ("matrix", np.zeros((2, 2), "int64")), ("float", np.float32([0]))):
        for constants in ((), ("y",)):
            want = "either" if name in ("matrix", "none") else "error"
            yield from ml(name + ("_constant" if constants else ""), "ArrayFeatureExtractor", {**X, "y": at}, want, version=1, constants=constants)
    yield from ml("scalar", "ArrayFeatureExtractor", {"x": np.float32(1), "y": i64(0).reshape(1)}, "error", version=1)
    for name, change in {"labels_short": {"classlabels_int64s": [1]}, "labels_none": {}, "labels_both": {
            "classlabels_int64s": [1, 2, 3], "classlabels_strings": ["a", "b", "c"]}}.items():
        yield from ml(name, "ZipMap", X, "error", version=1, **change)
    yield from ml("rank_3", "ZipMap", {"x": f32(2, 2, 3)}, "error", version=1, classlabels_int64s=[1, 2, 3])
    yield from ml("of_a_tensor", "DictVectorizer", X, "error", version=1, string_vocabulary=["a"])
    yield from ml("of_a_tensor", "CastMap", X, "error", version=1)


def learning_cases():
    """All of them."""
    yield from tree_cases()
    yield from ensemble_cases()
    yield from support_cases()
    yield from linear_cases()
    yield from table_cases()
