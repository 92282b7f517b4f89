#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Exports estimators of scikit-learn, XGBoost and LightGBM for any number of rows.

    estimators.py OUT [NAME..]

Writes OUT/NAME.onnx, converted by skl2onnx or onnxmltools, and beside it NAME.INDEX.npz with 1, 100 and 10,000 rows; compare.py
takes them from there. Needs scikit-learn, skl2onnx, onnxmltools, xgboost and lightgbm in an environment of its own."""
import argparse
import pathlib
import warnings

import numpy as np

ROWS = (1, 100, 10000)
FEATURES = 10
ENTRIES = {}  # name -> function that returns (model, converter's options, names of the data)


def _data(kind, rows, seed):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((rows, FEATURES)).astype("f4")
    if kind == "counts":
        return rng.integers(0, 5, (rows, FEATURES)).astype("f4")
    if kind == "missing":
        values[rng.random(values.shape) < 0.1] = np.nan
    if kind == "positive":
        return np.abs(values) + np.float32(0.1)
    if kind == "unit":
        return rng.random((rows, FEATURES)).astype("f4")
    if kind == "words":
        return rng.choice(["red", "green", "blue"], (rows, FEATURES)).astype(object)
    if kind == "texts":
        words = np.array("a the cat dog sat on mat ran over it and then some more words".split())
        return np.array([[" ".join(rng.choice(words, 6))] for _ in range(rows)], object)
    return values


def _targets(task, data):
    sums = np.random.default_rng(7).random(len(data)) if data.dtype == object else np.nansum(data[:, :3], axis=1)
    if task == "regression":
        return sums
    if task == "many outputs":
        return np.stack([sums, -sums], 1)
    if task == "positive":
        return np.abs(sums) + 0.1
    if task == "many labels":
        return np.stack([sums > np.median(sums), sums > np.quantile(sums, 0.8)], 1).astype("i8")
    classes = 2 if task == "two" else 3
    labels = np.digitize(sums, np.quantile(sums, np.arange(1, classes) / classes))
    return np.array(["low", "middle", "high"])[labels] if task == "names" else labels


def _fitted(make, kind, task):
    data = _data(kind, 400, 0)
    return make().fit(data, _targets(task, data)) if task else make().fit(data)


def _add(name, make, kind="normal", task=None, **options):
    ENTRIES[name] = lambda: (_fitted(make, kind, task), options, kind)


def _scikit_learn():
    from sklearn import (calibration, cluster, compose, cross_decomposition, decomposition, discriminant_analysis, ensemble, feature_extraction,
                         feature_selection, gaussian_process, impute, linear_model, mixture, multiclass, multioutput,
                         naive_bayes, neighbors, neural_network, pipeline, preprocessing, random_projection, svm, tree)

    linear, trees = linear_model.LogisticRegression, dict(n_estimators=20, random_state=0)
    classifiers = dict(
        LogisticRegression=linear, LogisticRegressionCV=lambda: linear_model.LogisticRegressionCV(cv=3), SGDClassifier=lambda: linear_model.SGDClassifier(loss="log_loss"),
        Perceptron=linear_model.Perceptron, RidgeClassifier=linear_model.RidgeClassifier, SVC=lambda: svm.SVC(probability=True),
        NuSVC=lambda: svm.NuSVC(nu=0.2, probability=True), GaussianNB=naive_bayes.GaussianNB, BernoulliNB=naive_bayes.BernoulliNB,
        KNeighborsClassifier=neighbors.KNeighborsClassifier, RadiusNeighborsClassifier=lambda: neighbors.RadiusNeighborsClassifier(9, outlier_label="most_frequent"),
        DecisionTreeClassifier=tree.DecisionTreeClassifier, ExtraTreeClassifier=tree.ExtraTreeClassifier, RandomForestClassifier=lambda: ensemble.RandomForestClassifier(**trees),
        ExtraTreesClassifier=lambda: ensemble.ExtraTreesClassifier(**trees), GradientBoostingClassifier=lambda: ensemble.GradientBoostingClassifier(**trees),
        HistGradientBoostingClassifier=lambda: ensemble.HistGradientBoostingClassifier(max_iter=20), AdaBoostClassifier=lambda: ensemble.AdaBoostClassifier(**trees),
        BaggingClassifier=lambda: ensemble.BaggingClassifier(**trees), MLPClassifier=lambda: neural_network.MLPClassifier(max_iter=50),
        LinearDiscriminantAnalysis=discriminant_analysis.LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis=discriminant_analysis.QuadraticDiscriminantAnalysis,
        CalibratedClassifierCV=lambda: calibration.CalibratedClassifierCV(linear(), cv=3), OneVsRestClassifier=lambda: multiclass.OneVsRestClassifier(linear()),
        OneVsOneClassifier=lambda: multiclass.OneVsOneClassifier(linear()),
        VotingClassifier=lambda: ensemble.VotingClassifier([("a", linear()), ("b", tree.DecisionTreeClassifier(max_depth=4))], voting="soft", flatten_transform=False),
        StackingClassifier=lambda: ensemble.StackingClassifier([("a", linear()), ("b", tree.DecisionTreeClassifier(max_depth=4))]),
        GaussianProcessClassifier=gaussian_process.GaussianProcessClassifier)
    for name, make in classifiers.items():
        for task in ("two", "three", "names"):
            _add(f"{name}.{task}", make, "normal", task, zipmap=task == "names")
    _add("LogisticRegression.columns", linear, "normal", "names", zipmap="columns")
    _add("MultinomialNB", naive_bayes.MultinomialNB, "counts", "three")
    _add("ComplementNB", naive_bayes.ComplementNB, "counts", "three")
    _add("CategoricalNB", lambda: naive_bayes.CategoricalNB(min_categories=5), "counts", "three")
    _add("MultiOutputClassifier", lambda: multioutput.MultiOutputClassifier(linear()), "normal", "many labels")
    _add("LinearSVC", svm.LinearSVC, "normal", "three")
    regressors = dict(
        LinearRegression=linear_model.LinearRegression, Ridge=linear_model.Ridge, Lasso=linear_model.Lasso, ElasticNet=linear_model.ElasticNet, BayesianRidge=linear_model.BayesianRidge,
        HuberRegressor=linear_model.HuberRegressor, RANSACRegressor=linear_model.RANSACRegressor, SVR=svm.SVR, NuSVR=svm.NuSVR, LinearSVR=svm.LinearSVR,
        KNeighborsRegressor=neighbors.KNeighborsRegressor, RadiusNeighborsRegressor=lambda: neighbors.RadiusNeighborsRegressor(9), DecisionTreeRegressor=tree.DecisionTreeRegressor,
        RandomForestRegressor=lambda: ensemble.RandomForestRegressor(**trees), ExtraTreesRegressor=lambda: ensemble.ExtraTreesRegressor(**trees),
        GradientBoostingRegressor=lambda: ensemble.GradientBoostingRegressor(**trees), HistGradientBoostingRegressor=lambda: ensemble.HistGradientBoostingRegressor(max_iter=20),
        AdaBoostRegressor=lambda: ensemble.AdaBoostRegressor(**trees), BaggingRegressor=lambda: ensemble.BaggingRegressor(**trees), MLPRegressor=lambda: neural_network.MLPRegressor(max_iter=50),
        GaussianProcessRegressor=lambda: gaussian_process.GaussianProcessRegressor(gaussian_process.kernels.RBF()), PLSRegression=cross_decomposition.PLSRegression,
        VotingRegressor=lambda: ensemble.VotingRegressor([("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=4))]),
        StackingRegressor=lambda: ensemble.StackingRegressor([("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=4))]))
    for name, make in regressors.items():
        _add(name, make, "normal", "regression")
    for name in ("PoissonRegressor", "GammaRegressor", "TweedieRegressor"):
        _add(name, getattr(linear_model, name), "normal", "positive")
    _add("MultiOutputRegressor", lambda: multioutput.MultiOutputRegressor(linear_model.Ridge()), "normal", "many outputs")
    _add("QuantileRegressor", lambda: linear_model.QuantileRegressor(alpha=0.1), "normal", "regression")
    others = dict(
        KMeans=lambda: cluster.KMeans(5), MiniBatchKMeans=lambda: cluster.MiniBatchKMeans(5), PCA=lambda: decomposition.PCA(4), IncrementalPCA=lambda: decomposition.IncrementalPCA(4),
        KernelPCA=lambda: decomposition.KernelPCA(4, kernel="rbf"), TruncatedSVD=lambda: decomposition.TruncatedSVD(4), GaussianMixture=lambda: mixture.GaussianMixture(3), BayesianGaussianMixture=lambda: mixture.BayesianGaussianMixture(n_components=3),
        IsolationForest=lambda: ensemble.IsolationForest(n_estimators=20), LocalOutlierFactor=lambda: neighbors.LocalOutlierFactor(novelty=True), OneClassSVM=svm.OneClassSVM,
        SGDOneClassSVM=linear_model.SGDOneClassSVM, KNeighborsTransformer=neighbors.KNeighborsTransformer,
        GaussianRandomProjection=lambda: random_projection.GaussianRandomProjection(4), StandardScaler=preprocessing.StandardScaler, MinMaxScaler=lambda: preprocessing.MinMaxScaler(clip=True),
        MaxAbsScaler=preprocessing.MaxAbsScaler, RobustScaler=preprocessing.RobustScaler, Normalizer=preprocessing.Normalizer, Binarizer=preprocessing.Binarizer,
        PowerTransformer=preprocessing.PowerTransformer, QuantileTransformer=lambda: preprocessing.QuantileTransformer(n_quantiles=50), PolynomialFeatures=preprocessing.PolynomialFeatures,
        KBinsDiscretizer=lambda: preprocessing.KBinsDiscretizer(4, encode="onehot-dense"), VarianceThreshold=feature_selection.VarianceThreshold)
    for name, make in others.items():
        _add(name, make)
    for name in ("SelectKBest", "SelectPercentile", "SelectFpr", "SelectFdr", "SelectFwe"):
        _add(name, getattr(feature_selection, name) if name != "SelectKBest" else lambda: feature_selection.SelectKBest(k=4), "normal", "three")
    _add("RFE", lambda: feature_selection.RFE(linear()), "normal", "three")
    _add("NeighborhoodComponentsAnalysis", lambda: neighbors.NeighborhoodComponentsAnalysis(3, max_iter=5), "normal", "three")
    _add("SimpleImputer", impute.SimpleImputer, "missing")
    _add("KNNImputer", impute.KNNImputer, "missing")
    _add("OneHotEncoder", lambda: preprocessing.OneHotEncoder(sparse_output=False, handle_unknown="ignore"), "words")
    _add("OrdinalEncoder", preprocessing.OrdinalEncoder, "words")
    _add("TargetEncoder", preprocessing.TargetEncoder, "words", "regression")
    _add("OneHotEncoder.pipeline", lambda: pipeline.make_pipeline(preprocessing.OneHotEncoder(handle_unknown="ignore"), linear()), "words", "three", zipmap=False)
    text = feature_extraction.text
    column = lambda vectorizer: compose.ColumnTransformer([("text", vectorizer, 0)])
    _add("CountVectorizer", lambda: column(text.CountVectorizer()), "texts")
    _add("TfidfVectorizer", lambda: column(text.TfidfVectorizer(ngram_range=(1, 2))), "texts")
    _add("TfidfVectorizer.pipeline", lambda: pipeline.make_pipeline(column(text.TfidfVectorizer()), linear()), "texts", "three", zipmap=False)
    _add("KNNImputer.pipeline", lambda: pipeline.make_pipeline(impute.KNNImputer(), preprocessing.StandardScaler(), ensemble.RandomForestClassifier(**trees)), "missing", "three", zipmap=False)
    _add("FeatureUnion", lambda: pipeline.make_pipeline(pipeline.make_union(decomposition.PCA(3), preprocessing.StandardScaler()), svm.SVC()), "normal", "three", zipmap=False)


def _boosted():
    import lightgbm
    import xgboost

    few = dict(n_estimators=20, random_state=0)
    for task in ("two", "three"):
        _add(f"XGBClassifier.{task}", lambda: xgboost.XGBClassifier(**few), "normal", task)
        _add(f"XGBClassifier.missing.{task}", lambda: xgboost.XGBClassifier(**few), "missing", task)
        _add(f"XGBRFClassifier.{task}", lambda: xgboost.XGBRFClassifier(**few), "normal", task)
        for boosting in ("gbdt", "rf", "dart"):
            more = dict(subsample=0.7, subsample_freq=1) if boosting == "rf" else {}
            _add(f"LGBMClassifier.{boosting}.{task}", lambda b=boosting, m=more: lightgbm.LGBMClassifier(boosting_type=b, verbose=-1, **few, **m), "normal", task)
        _add(f"LGBMClassifier.missing.{task}", lambda: lightgbm.LGBMClassifier(verbose=-1, **few), "missing", task)
        _add(f"LGBMClassifier.plain.{task}", lambda: lightgbm.LGBMClassifier(verbose=-1, **few), "normal", task, zipmap=False)
    _add("XGBClassifier.large", lambda: xgboost.XGBClassifier(n_estimators=300, max_depth=8), "normal", "three")
    _add("LGBMClassifier.large", lambda: lightgbm.LGBMClassifier(n_estimators=300, num_leaves=63, verbose=-1), "normal", "three")
    for objective in ("reg:squarederror", "reg:squaredlogerror", "reg:logistic", "reg:absoluteerror", "reg:pseudohubererror", "count:poisson", "reg:gamma", "reg:tweedie"):
        task = "positive" if objective in ("count:poisson", "reg:gamma", "reg:tweedie", "reg:squaredlogerror") else "regression"
        ENTRIES["XGBRegressor." + objective.split(":")[1]] = lambda o=objective, t=task: (_boosted_regressor(xgboost.XGBRegressor(objective=o, **few), t, o), {}, "normal")
    _add("XGBRFRegressor", lambda: xgboost.XGBRFRegressor(**few), "normal", "regression")
    _add("XGBRegressor.two", lambda: xgboost.XGBRegressor(**few), "normal", "many outputs")
    for objective in ("regression", "regression_l1", "huber", "quantile", "poisson", "gamma", "tweedie"):
        task = "positive" if objective in ("poisson", "gamma", "tweedie") else "regression"
        _add("LGBMRegressor." + objective, lambda o=objective: lightgbm.LGBMRegressor(objective=o, verbose=-1, **few), "normal", task)
    _add("LGBMRegressor.missing", lambda: lightgbm.LGBMRegressor(verbose=-1, zero_as_missing=True, **few), "missing", "regression")
    ENTRIES["LGBMRegressor.categories"] = lambda: (_categories(lightgbm.LGBMRegressor(verbose=-1, **few)), {}, "counts")
    ENTRIES["LGBMRegressor.split"] = lambda: (_fitted(lambda: lightgbm.LGBMRegressor(verbose=-1, **few), "normal", "regression"), {"split": 8}, "normal")
    ENTRIES["LGBMRanker"] = lambda: (_ranker(lightgbm.LGBMRanker(verbose=-1, **few)), {}, "normal")


def _boosted_regressor(model, task, objective):
    data = _data("normal", 400, 0)
    targets = _targets(task, data)
    return model.fit(data, 1 / (1 + np.exp(-targets)) if objective == "reg:logistic" else targets)


def _categories(model):
    data = _data("counts", 400, 0)
    return model.fit(data, np.cos(3 * data[:, 0]) + data[:, 1], categorical_feature=[0, 1, 2])


def _ranker(model):
    data = _data("normal", 400, 0)
    return model.fit(data, _targets("three", data), group=[40] * 10)


def _to_onnx(model, options, kind):
    import onnxmltools
    import skl2onnx
    from onnxmltools.convert.common.data_types import FloatTensorType

    module = type(model).__module__.split(".")[0]
    target = 15
    if module == "xgboost":
        return onnxmltools.convert_xgboost(model, initial_types=[("X", FloatTensorType([None, FEATURES]))], target_opset=target)
    if module == "lightgbm":
        return onnxmltools.convert_lightgbm(model, initial_types=[("X", FloatTensorType([None, FEATURES]))], target_opset=target, **options)
    types = skl2onnx.common.data_types
    columns = 1 if kind == "texts" else FEATURES
    data = (types.StringTensorType if kind in ("texts", "words") else types.FloatTensorType)([None, columns])
    return skl2onnx.to_onnx(model, initial_types=[("X", data)], options={id(model): options} if options else None, target_opset={"": 21, "ai.onnx.ml": 3})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("names", nargs="*", help="parts of names; all")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    _scikit_learn()
    _boosted()
    for name, make in ENTRIES.items():
        if options.names and not any(part in name for part in options.names):
            continue
        try:
            model, more, kind = make()
            converted = _to_onnx(model, more, kind)
        except Exception as error:  # what a converter can't do is a line of the report
            print(f"{name:40s} FAIL {type(error).__name__} {(str(error).strip().splitlines() or [''])[0][:200]}", flush=True)
            continue
        (options.out / f"{name}.onnx").write_bytes(converted.SerializeToString())
        for index, rows in enumerate(ROWS):
            data = _data(kind, rows, index + 1)
            np.savez(options.out / f"{name}.{index}.npz", X=data.astype(str) if data.dtype == object else data)
        print(f"{name:40s} ok", flush=True)


if __name__ == "__main__":
    main()
