// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/manifest.h"

#include "runtime/json.h"
#include "treadle/base/error.h"

namespace treadle::runtime {
namespace {

std::string TensorsToJson(const std::vector<TensorInfo>& tensors) {
  std::string out = "[";
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& t = tensors[i];
    out += StrCat(i != 0 ? "," : "", "{\"name\":", JsonQuote(t.name), ",\"shape\":[");
    for (size_t d = 0; d < t.shape.size(); ++d) {
      bool symbol = t.shape[d] < 0 && d < t.dim_names.size() && !t.dim_names[d].empty();
      out += (d != 0 ? "," : "") + (symbol ? JsonQuote(t.dim_names[d]) : std::to_string(t.shape[d]));
    }
    out += StrCat("],\"dtype\":", JsonQuote(t.dtype.str()));
    if (!t.value_type.empty()) out += StrCat(",\"value_type\":", JsonQuote(t.value_type));
    out += "}";
  }
  return out + "]";
}

std::vector<TensorInfo> TensorsFromJson(const JsonValue& json, const std::string& path) {
  std::vector<TensorInfo> tensors;
  for (const JsonValue& item : json.AsArray(path)) {
    TensorInfo t;
    t.name = item.At("name", path).AsString(path + ".name");
    bool symbolic = false;
    for (const JsonValue& dim : item.At("shape", path).AsArray(path + ".shape")) {
      t.dim_names.emplace_back();
      if (dim.is_string()) {
        t.dim_names.back() = dim.AsString(path);
        t.shape.push_back(-1);
        symbolic = true;
      } else {
        t.shape.push_back(dim.AsIntIn(-1, int64_t{1} << 48, path + ".shape"));
      }
    }
    if (!symbolic) t.dim_names.clear();
    t.dtype = DataType::FromString(item.At("dtype", path).AsString(path + ".dtype"));
    if (item.Find("value_type") != nullptr) t.value_type = item.At("value_type", path).AsString(path + ".value_type");
    tensors.push_back(std::move(t));
  }
  return tensors;
}

}  // namespace

std::string TensorInfo::str() const {
  if (!value_type.empty()) return value_type + " as bytes";
  std::string text = dtype.str() + " (";
  for (size_t d = 0; d < shape.size(); ++d) {
    std::string dim = std::to_string(shape[d]);
    if (shape[d] < 0) dim = d < dim_names.size() && !dim_names[d].empty() ? dim_names[d] : "?";
    text += (d != 0 ? ", " : "") + dim;
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

std::string Manifest::ToJson() const {
  std::string made;
  for (const auto& [key, value] : provenance)
    made += StrCat(made.empty() ? "" : ",", JsonQuote(key), ":", JsonQuote(value));
  return StrCat("{\"treadle_version\":", JsonQuote(treadle_version), ",\"name\":", JsonQuote(name),
                ",\"executor\":", JsonQuote(executor), ",\"module_name\":", JsonQuote(module_name),
                ",\"target\":", JsonQuote(target), ",\"cpu_features\":", JsonArray(cpu_features),
                ",\"source_hash\":", JsonQuote(source_hash), ",\"provenance\":{", made,
                "},\"inputs\":", TensorsToJson(inputs), ",\"outputs\":", TensorsToJson(outputs), "}");
}

Manifest Manifest::FromJson(std::string_view text, const std::string& what) {
  JsonValue json = JsonValue::Parse(text, what);
  auto string_of = [&](const char* key) { return json.At(key, what).AsString(what + "." + key); };
  Manifest manifest;
  manifest.treadle_version = string_of("treadle_version");
  manifest.name = string_of("name");
  manifest.executor = string_of("executor");
  if (json.Find("module_name") != nullptr) manifest.module_name = string_of("module_name");
  manifest.target = string_of("target");
  manifest.cpu_features = json.At("cpu_features", what).AsStrings(what + ".cpu_features");
  manifest.source_hash = string_of("source_hash");
  if (const JsonValue* made = json.Find("provenance"); made != nullptr) {
    for (const auto& [key, value] : made->AsObject(what + ".provenance")) {
      manifest.provenance[key] = value.AsString(what + ".provenance." + key);
    }
  }
  try {
    manifest.inputs = TensorsFromJson(json.At("inputs", what), what + ".inputs");
    manifest.outputs = TensorsFromJson(json.At("outputs", what), what + ".outputs");
  } catch (const DTypeError& error) {
    throw ModelFormatError(StrCat(what, ": ", error.what()));
  }
  return manifest;
}

const char* VersionString() { return TREADLE_VERSION; }

}  // namespace treadle::runtime
