// SPDX-License-Identifier: Apache-2.0
#include "runtime/vm/host/host.h"

#include <cstring>

namespace treadle::runtime::vm {

int64_t StringTable::Intern(std::string_view text) {
  auto it = numbers_.find(text);
  if (it != numbers_.end()) return it->second;
  const auto number = static_cast<int64_t>(strings_.size());
  strings_.emplace_back(text);
  numbers_.emplace(strings_.back(), number);
  return number;
}

const std::string& StringTable::At(int64_t number) const {
  if (number < 0 || number >= static_cast<int64_t>(strings_.size())) {
    throw RuntimeError(StrCat("no string has the number ", number));
  }
  return strings_[static_cast<size_t>(number)];
}

void StringTable::Clear() {
  numbers_.clear();
  strings_.clear();
}

HostFunction FindHostFunction(const std::string& name) {
  static const HostTable* table = [] {
    auto* t = new HostTable();  // never destroyed
    AddValueFunctions(t);
    AddImageFunctions(t);
    AddProbabilityFunctions(t);
    AddSequenceFunctions(t);
    AddStringFunctions(t);
    AddTextFunctions(t);
    return t;
  }();
  auto it = table->find(name);
  return it == table->end() ? nullptr : it->second;
}

NDArray TensorArg(const HostArgs& args, size_t i) {
  if (i >= args.size() || args[i].as<NDArrayNode>() == nullptr) {
    throw RuntimeError(StrCat("argument ", i, " of a host function isn't a tensor"));
  }
  auto tensor = Downcast<NDArray>(args[i]);
  if (!tensor.IsCompact()) throw RuntimeError(StrCat("argument ", i, " of a host function isn't contiguous"));
  return tensor;
}

NDArray TensorArg(const HostArgs& args, size_t i, DataType dtype) {
  NDArray tensor = TensorArg(args, i);
  if (tensor.dtype() != dtype) {
    throw DTypeError(StrCat("argument ", i, " of a host function is ", tensor.dtype(), ", expected ", dtype));
  }
  return tensor;
}

int64_t IntArg(const HostArgs& args, size_t i) {
  NDArray tensor = TensorArg(args, i);
  if (tensor.size() != 1 || !tensor.dtype().is_int() || (tensor.dtype().bits() != 32 && tensor.dtype().bits() != 64)) {
    throw RuntimeError(StrCat("argument ", i, " of a host function isn't one int32 or int64"));
  }
  return tensor.dtype().bits() == 64 ? *tensor.Data<int64_t>() : *tensor.Data<int32_t>();
}

std::vector<std::string_view> TextsArg(const HostRun& run, const HostArgs& args, size_t i) {
  NDArray tensor = TensorArg(args, i, DataType::Int(64));
  std::vector<std::string_view> texts;
  texts.reserve(static_cast<size_t>(tensor.size()));
  for (int64_t k = 0; k < tensor.size(); ++k) texts.emplace_back(run.strings.At(tensor.Data<int64_t>()[k]));
  return texts;
}

std::string_view BytesArg(const HostArgs& args, size_t i) {
  NDArray tensor = TensorArg(args, i, DataType::UInt(8));
  return {tensor.Data<char>(), static_cast<size_t>(tensor.size())};
}

const AdtValueNode* DataArg(const HostArgs& args, size_t i, int64_t tag, const char* what) {
  const auto* data = i < args.size() ? args[i].as<AdtValueNode>() : nullptr;
  if (data == nullptr || data->tag != tag) throw RuntimeError(StrCat("argument ", i, " isn't ", what));
  return data;
}

AdtValue SequenceArg(HostRun& run, const HostArgs& args, size_t i) {
  const auto* data = i < args.size() ? args[i].as<AdtValueNode>() : nullptr;
  if (data == nullptr || (data->tag != kMapsTag && data->tag != kTextMapsTag)) {
    return GetRef<AdtValue>(DataArg(args, i, kSequenceTag, "a sequence"));
  }
  const NDArray keys = TensorArg(data->fields, 0), rows = TensorArg(data->fields, 1);
  const auto bytes = static_cast<size_t>(keys.size() * ElementBytes(rows.dtype()));
  std::vector<ObjectRef> maps;
  for (int64_t row = 0; row < rows.shape()[0]; ++row) {
    NDArray values = run.alloc(keys.shape(), rows.dtype());
    if (bytes > 0) std::memcpy(values.data_ptr(), rows.Data<char>() + static_cast<size_t>(row) * bytes, bytes);
    maps.push_back(AdtValue(data->tag == kMapsTag ? kMapTag : kTextMapTag, {keys, values}));
  }
  return AdtValue(kSequenceTag, std::move(maps));
}

NDArray MakeInts(HostRun& run, const std::vector<int64_t>& shape, const std::vector<int64_t>& values) {
  NDArray tensor = run.alloc(shape, DataType::Int(64));
  if (!values.empty()) std::memcpy(tensor.Data<int64_t>(), values.data(), values.size() * sizeof(int64_t));
  return tensor;
}

}  // namespace treadle::runtime::vm
