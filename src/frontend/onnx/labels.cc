// SPDX-License-Identifier: Apache-2.0
// ai.onnx.ml: labels and categories, numbers or strings, and maps of them.
#include "frontend/onnx/labels.h"

#include <cmath>

#include "frontend/onnx/checked_values.h"
#include "frontend/onnx/composed.h"
#include "frontend/onnx/tensor_data.h"
#include "frontend/onnx/values.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using IntList = std::vector<int64_t>;
using Doubles = std::vector<double>;

const DataType kInt64 = DataType::Int(64);
const DataType kFloat32 = DataType::Float(32);

const std::vector<std::string>* StringsOf(NodeImport& n, const std::string& name) {
  const Attribute* strings = n.Find(name.c_str());
  if (strings == nullptr) return nullptr;
  if (strings->type != Attribute::Type::kStrings) n.Invalid(StrCat("'", name, "' isn't a list of strings"));
  return &strings->strings;
}

/// A vector of numbers or strings.
struct Labels {
  Expr values;
  int64_t count = 0;
  bool text = false;
};

std::optional<Labels> ReadLabels(NodeImport& n, const std::string& prefix) {
  auto numbers = [&](const NDArray& array) -> Labels {
    return {n.Const(array.CreateView({array.size()}, array.dtype())), array.size(), false};
  };
  if (const Attribute* tensor = n.Find((prefix + "_tensor").c_str())) {
    if (tensor->type != Attribute::Type::kTensor) n.Invalid(StrCat("'", prefix, "_tensor' isn't a tensor"));
    if (tensor->t->data_type != ElemType::kString) return numbers(ToNDArray(*tensor->t, prefix));
    const int64_t count = tensor->t->NumElements();
    return Labels{n.Reshape(TextConstant(n, *tensor->t), {count}), count, true};
  }
  if (const auto* strings = StringsOf(n, prefix + "_strings")) {
    return Labels{TextVector(n, *strings), static_cast<int64_t>(strings->size()), true};
  }
  if (n.HasAttr((prefix + "_int64s").c_str())) {
    IntList values = n.Ints((prefix + "_int64s").c_str());
    return numbers(ArrayOf(values, {static_cast<int64_t>(values.size())}, kInt64));
  }
  if (n.HasAttr((prefix + "_floats").c_str())) {
    Doubles values = n.Floats((prefix + "_floats").c_str());
    return numbers(ArrayOf(values, {static_cast<int64_t>(values.size())}, kFloat32));
  }
  return std::nullopt;
}

/// The value whose key each element of `x` is, or `otherwise`.
Term Lookup(NodeImport& n, const Term& x, const Term& keys, const Term& values, const Term& otherwise) {
  Term same = x.Expand(-1) == keys;  // (.., keys)
  if (x.dtype().is_floating()) same = same || (x.Expand(-1).Op("isnan") && keys.Op("isnan"));
  const IntList last{x.rank()};
  Term found = same.Reduce("any", last);
  Term index(n, n.Call("argmax", {same.As(DataType::Int(32))},
                       {{"axis", last}, {"keepdims", false}, {"select_last_index", true}}));
  return found.Select(values.Take(index.As(kInt64)), otherwise);
}

/// Version 1: strings to their positions in a list, or positions to strings.
Expr ImportLabelEncoder1(NodeImport& n, const char* list) {
  const auto* strings = StringsOf(n, list);
  if (strings == nullptr || strings->empty()) n.Invalid(StrCat("'", list, "' is missing"));
  const auto count = static_cast<int64_t>(strings->size());
  IntList positions;
  for (int64_t i = 0; i < count; ++i) positions.push_back(i);
  Term texts(n, TextVector(n, *strings)), numbers = IntVec(n, positions);
  if (n.IsText(0)) return Lookup(n, In(n, 0), texts, numbers, IntNum(n, n.Int("default_int64", -1)));
  n.MarkText();
  Term otherwise(n, TextConstant(n, {}, {n.Str("default_string", "_Unused")}));
  return Lookup(n, In(n, 0).As(kInt64), numbers, texts, otherwise);
}

Expr Otherwise(NodeImport& n, const Labels& values) {
  const Attribute* given = n.Find("default_tensor");
  if (given != nullptr && given->type != Attribute::Type::kTensor) n.Invalid("'default_tensor' isn't a tensor");
  if (values.text) {
    if (given == nullptr) return TextConstant(n, {}, {n.Str("default_string", "_Unused")});
    if (given->t->data_type != ElemType::kString) n.Invalid("'default_tensor' isn't of strings");
    return n.Reshape(TextConstant(n, *given->t), {});
  }
  const DataType dtype = TypeOf(values.values)->dtype;
  if (given != nullptr) {
    const NDArray value = ToNDArray(*given->t, "default_tensor");
    if (value.dtype() != dtype) n.Invalid(StrCat("'default_tensor' is ", value.dtype(), ", the values are ", dtype));
    return n.Reshape(n.Const(value), {});
  }
  return dtype.is_floating() ? n.Scalar(dtype, n.Float("default_float", -0.0))
                             : n.Scalar(dtype, static_cast<double>(n.Int("default_int64", -1)));
}

Expr ImportLabelEncoder(NodeImport& n) {
  n.Ignore({"default_string", "default_int64", "default_float"});
  if (n.version() < 2) return ImportLabelEncoder1(n, "classes_strings");
  std::optional<Labels> keys = ReadLabels(n, "keys"), values = ReadLabels(n, "values");
  if (!keys || !values) n.Invalid("keys or values are missing");
  if (keys->count != values->count || keys->count == 0) n.Invalid("there are as many keys as values, one at least");
  Term x = In(n, 0);
  if (TypeOf(keys->values)->dtype != x.dtype() || keys->text != n.IsText(0)) {
    n.Invalid("the keys are of another type than the operand");
  }
  if (values->text) n.MarkText();
  return Lookup(n, x, {n, keys->values}, {n, values->values}, {n, Otherwise(n, *values)});
}

/// As LabelEncoder, with the integers listed.
Expr ImportCategoryMapper(NodeImport& n) {
  const auto* strings = StringsOf(n, "cats_strings");
  IntList ints = n.Ints("cats_int64s");
  n.Ignore({"default_string", "default_int64"});
  if (strings == nullptr || strings->size() != ints.size() || ints.empty()) n.Invalid("the categories don't fit");
  Term texts(n, TextVector(n, *strings)), numbers = IntVec(n, ints);
  if (n.IsText(0)) return Lookup(n, In(n, 0), texts, numbers, IntNum(n, n.Int("default_int64", -1)));
  n.MarkText();
  return Lookup(n, In(n, 0), numbers, texts, {n, TextConstant(n, {}, {n.Str("default_string", "_Unused")})});
}

Expr ImportOneHotEncoder(NodeImport& n) {
  const bool zeros = n.Flag("zeros", true);
  const auto* strings = StringsOf(n, "cats_strings");
  if ((strings != nullptr) != n.IsText(0)) n.Invalid("the categories are of another type than the operand");
  Term categories = strings != nullptr ? Term(n, TextVector(n, *strings)) : IntVec(n, n.Ints("cats_int64s"));
  Term x = In(n, 0), same = x.As(kInt64).Expand(-1) == categories;
  if (zeros) return same.As(kFloat32);
  // An element that is of no category stops the model.
  Term known = AtLeast(same.As(kInt64).Sum({x.rank()}, true), 1, "number of categories that an element is of");
  return (same && known > int64_t{0}).As(kFloat32);
}

/// A map from labels to the scores of each row.
Expr ImportZipMap(NodeImport& n) {
  ClassLabels labels = ReadClassLabels(n, "classlabels_int64s", "classlabels_strings");
  Term x = In(n, 0);
  if (x.rank() == 1) x = x.Expand(0);
  if (x.rank() != 2) n.Invalid(StrCat("the operand has rank ", x.rank(), ", expected 1 or 2"));
  return HostCall(n, labels.text ? "map.zip_text" : "map.zip", {x, labels.values}, {"sequence", DataType(), -1});
}

struct MapFields {
  Term keys, values;
  bool text = false;  ///< the values are strings
};

MapFields FieldsOf(NodeImport& n) {
  Expr map = n.In(0);
  if (map->checked_type_.as<TensorTypeNode>()) n.Invalid("the operand is a tensor, expected a map");
  const bool text = n.IsText(0);
  return {{n, HostTensor(n, "map.keys", {map}, kInt64, 1)},
          {n, HostTensor(n, "map.values", {map}, text ? kInt64 : kFloat32, 1)},
          text};
}

/// Values of a map in the order of a vocabulary; 0 or an empty string where it has none.
Term InOrderOf(NodeImport& n, const Term& vocabulary, const MapFields& map) {
  if (!map.text) {
    Term same = vocabulary.Expand(1) == map.keys.Expand(0);
    return same.Select(map.values.Expand(0), 0).Sum({1});
  }
  // A last entry whose value is the one of keys that aren't there.
  const Term empty(n, TextVector(n, {""}));
  const Term values(n, n.Concat({map.values, empty}, 0)), keys(n, n.Concat({map.keys, n.IntVector({-1})}, 0));
  return Lookup(n, vocabulary, keys, values, {n, TextConstant(n, {}, {""})});
}

Expr ImportDictVectorizer(NodeImport& n) {
  const auto* strings = StringsOf(n, "string_vocabulary");
  Term vocabulary = strings != nullptr ? Term(n, TextVector(n, *strings)) : IntVec(n, n.Ints("int64_vocabulary"));
  const MapFields map = FieldsOf(n);
  if (map.text) n.MarkText();
  return InOrderOf(n, vocabulary, map).Expand(0);
}

/// Values of a map from integers, by key: all of them, or at the places that the keys say.
Expr ImportCastMap(NodeImport& n) {
  const std::string form = n.Str("map_form", "DENSE"), type = n.Str("cast_to", "TO_FLOAT");
  const int64_t most = n.Int("max_map", 1);
  if (form != "DENSE" && form != "SPARSE") n.Invalid(StrCat("'map_form' is ", QuoteName(form)));
  if (type != "TO_FLOAT" && type != "TO_INT64" && type != "TO_STRING") {
    n.Invalid(StrCat("'cast_to' is ", QuoteName(type)));
  }
  if (form == "SPARSE" && (most < 1 || most > INT32_MAX)) n.Invalid(StrCat("'max_map' is ", most));
  MapFields map = FieldsOf(n);
  Term result = map.values;
  if (form == "DENSE") {
    const Term order(n, n.Call("argsort", {map.keys}, {{"axis", 0}, {"is_ascend", true}, {"dtype", kInt64}}));
    result = map.values.Take(order);
  } else {
    const Expr last = n.Scalar(kInt64, static_cast<double>(most - 1));
    map.keys = Term(n, CheckedValues(n, map.keys, "at_most", last, "key of the map"));
    result = InOrderOf(n, Iota(IntNum(n, most)), map);
  }
  result = result.Expand(0);
  if (type == "TO_STRING") {
    n.MarkText();
    return map.text ? Expr(result) : ToText(n, result);
  }
  const DataType dtype = type == "TO_FLOAT" ? kFloat32 : kInt64;
  return map.text ? FromText(n, result, dtype) : Expr(result.As(dtype));
}

}  // namespace

ClassLabels ReadClassLabels(NodeImport& n, const char* ints, const char* strings) {
  const auto* texts = StringsOf(n, strings);
  if (texts != nullptr && !texts->empty()) {
    if (!n.Ints(ints, std::vector<int64_t>()).empty())
      n.Invalid(StrCat("both '", ints, "' and '", strings, "' are given, expected one of them"));
    return {TextVector(n, *texts), static_cast<int64_t>(texts->size()), true};
  }
  const IntList values = n.Ints(ints);
  return {n.IntVector(values), static_cast<int64_t>(values.size()), false};
}

void RegisterLabelRules(RuleTable& table) {
  table.Add1("ai.onnx.ml.LabelEncoder", {1, 2, 4}, ImportLabelEncoder);
  table.Add1("ai.onnx.ml.CategoryMapper", {1}, ImportCategoryMapper);
  table.Add1("ai.onnx.ml.OneHotEncoder", {1}, ImportOneHotEncoder);
  table.Add1("ai.onnx.ml.ZipMap", {1}, ImportZipMap);
  table.Add1("ai.onnx.ml.DictVectorizer", {1}, ImportDictVectorizer);
  table.Add1("ai.onnx.ml.CastMap", {1}, ImportCastMap);
}

}  // namespace treadle::onnx
