// SPDX-License-Identifier: Apache-2.0
// Sequences, optionals and maps of ONNX.
#include <algorithm>
#include <cstring>

#include "runtime/vm/host/host.h"

namespace treadle::runtime::vm {
namespace {

/// A position counted from 0; from the end where it is negative.
size_t Position(int64_t position, size_t length, bool end) {
  const auto size = static_cast<int64_t>(length);
  const int64_t from_begin = position < 0 ? position + size : position;
  if (from_begin < 0 || from_begin >= size + (end ? 1 : 0)) {
    throw RuntimeError(StrCat("position ", position, " is out of range for a sequence of ", length));
  }
  return static_cast<size_t>(from_begin);
}

ObjectRef Make(HostRun&, const HostArgs& args) { return AdtValue(kSequenceTag, args); }

ObjectRef CheckedTensor(const ObjectRef& value, const HostArgs& args, size_t type_at) {
  const auto* tensor = value.as<NDArrayNode>();
  NDArray wanted = TensorArg(args, type_at, DataType::Int(64));
  if (tensor == nullptr || wanted.size() != 3) throw RuntimeError("an element isn't a tensor");
  const int64_t* type = wanted.Data<int64_t>();
  if (tensor->tensor.dtype.code != type[0] || tensor->tensor.dtype.bits != type[1]) {
    throw DTypeError(StrCat("an element has the type ", DataType(tensor->tensor.dtype), ", the model expects ",
                            DataType(static_cast<int>(type[0]), static_cast<int>(type[1]))));
  }
  if (static_cast<int64_t>(tensor->shape.size()) != type[2]) {
    throw ShapeError(
        StrCat("an element has the shape ", ShapeString(tensor->shape), "; the model is compiled for rank ", type[2]));
  }
  return value;
}

/// (sequence, position, type): a tensor whose type and rank are checked.
ObjectRef At(HostRun& run, const HostArgs& args) {
  const AdtValue sequence = SequenceArg(run, args, 0);
  return CheckedTensor(sequence->fields[Position(IntArg(args, 1), sequence->fields.size(), false)], args, 2);
}

ObjectRef Length(HostRun& run, const HostArgs& args) {
  return MakeInts(run, {}, {static_cast<int64_t>(SequenceArg(run, args, 0)->fields.size())});
}

/// (sequence, value[, position])
ObjectRef Insert(HostRun& run, const HostArgs& args) {
  const AdtValue sequence = SequenceArg(run, args, 0);
  const size_t length = sequence->fields.size();
  const size_t at = args.size() > 2 ? Position(IntArg(args, 2), length, true) : length;
  std::vector<ObjectRef> fields;
  fields.reserve(length + 1);
  fields.assign(sequence->fields.begin(), sequence->fields.begin() + static_cast<std::ptrdiff_t>(at));
  fields.push_back(args.at(1));
  fields.insert(fields.end(), sequence->fields.begin() + static_cast<std::ptrdiff_t>(at), sequence->fields.end());
  return AdtValue(kSequenceTag, std::move(fields));
}

/// (sequence[, position])
ObjectRef Erase(HostRun& run, const HostArgs& args) {
  std::vector<ObjectRef> fields = SequenceArg(run, args, 0)->fields;
  if (fields.empty()) throw RuntimeError("the sequence is empty");
  const size_t at = args.size() > 1 ? Position(IntArg(args, 1), fields.size(), false) : fields.size() - 1;
  fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(at));
  return AdtValue(kSequenceTag, std::move(fields));
}

/// Copies `count` runs of `bytes` each, whose starts lie the strides apart.
void CopyRuns(char* to, int64_t to_stride, const char* from, int64_t from_stride, int64_t count, int64_t bytes) {
  if (bytes == 0) return;
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<size_t>(bytes));
  }
}

struct Runs {
  int64_t outer = 1, inner = 1;  ///< elements before and behind the axis
};
Runs RunsOf(const std::vector<int64_t>& shape, size_t axis) {
  Runs runs;
  for (size_t d = 0; d < shape.size(); ++d) (d < axis ? runs.outer : runs.inner) *= d == axis ? 1 : shape[d];
  return runs;
}

/// (tensor, axis, sizes, keepdims): parts along the axis. Sizes: a scalar (the last may be smaller) or a vector.
ObjectRef Split(HostRun& run, const HostArgs& args) {
  NDArray data = TensorArg(args, 0), sizes_arg = TensorArg(args, 2, DataType::Int(64));
  const auto axis = static_cast<size_t>(IntArg(args, 1));
  const bool keep = IntArg(args, 3) != 0;
  if (axis >= data.shape().size()) throw ShapeError(StrCat("no axis ", axis, " of ", ShapeString(data.shape())));
  const int64_t extent = data.shape()[axis];
  std::vector<int64_t> sizes;
  int64_t total = 0;
  if (sizes_arg.ndim() == 0) {
    const int64_t size = *sizes_arg.Data<int64_t>();
    if (size < 1) throw RuntimeError(StrCat("parts of ", size, " elements"));
    for (; total < extent; total += sizes.back()) sizes.push_back(std::min(size, extent - total));
  } else {
    for (int64_t i = 0; i < sizes_arg.size(); ++i) {
      sizes.push_back(sizes_arg.Data<int64_t>()[i]);
      if (sizes.back() < 0 || sizes.back() > extent - total) {
        throw ShapeError(
            StrCat("part ", i, " has ", sizes.back(), " elements, of ", extent - total, " that are left of ", extent));
      }
      total += sizes.back();
    }
  }
  if (total != extent) throw ShapeError(StrCat("the parts' sizes are ", total, " in sum, the dimension ", extent));
  const Runs runs = RunsOf(data.shape(), axis);
  const int64_t row = runs.inner * ElementBytes(data.dtype());
  std::vector<ObjectRef> parts;
  int64_t begin = 0;
  for (int64_t size : sizes) {
    std::vector<int64_t> shape = data.shape();
    shape[axis] = size;
    if (!keep && size == 1) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
    NDArray part = run.alloc(shape, data.dtype());
    CopyRuns(part.Data<char>(), size * row, data.Data<char>() + begin * row, extent * row, runs.outer, size * row);
    parts.push_back(part);
    begin += size;
  }
  return AdtValue(kSequenceTag, std::move(parts));
}

/// (sequence, axis, type of the result, new_axis): the elements joined along an axis, or along a new one.
ObjectRef Concat(HostRun& run, const HostArgs& args) {
  const AdtValue sequence = SequenceArg(run, args, 0);
  if (sequence->fields.empty()) throw RuntimeError("the sequence is empty");
  const bool stacks = IntArg(args, 3) != 0;
  std::vector<NDArray> parts;
  for (size_t i = 0; i < sequence->fields.size(); ++i) {
    NDArray part = TensorArg(sequence->fields, i);
    if (!stacks) {
      parts.push_back(part);
      continue;
    }
    std::vector<int64_t> shape = part.shape();
    const int64_t at = IntArg(args, 1);
    if (at < 0 || at > static_cast<int64_t>(shape.size())) throw ShapeError(StrCat("no axis ", at));
    shape.insert(shape.begin() + at, 1);
    parts.push_back(part.CreateView(shape, part.dtype()));
  }
  const auto axis = static_cast<size_t>(IntArg(args, 1));
  std::vector<int64_t> shape = parts[0].shape();
  if (axis >= shape.size()) throw ShapeError(StrCat("no axis ", axis, " of ", ShapeString(shape)));
  shape[axis] = 0;
  for (const NDArray& part : parts) {
    std::vector<int64_t> other = part.shape();
    if (other.size() != shape.size() || part.dtype() != parts[0].dtype()) {
      throw ShapeError("elements that are joined differ in rank or type");
    }
    shape[axis] += std::exchange(other[axis], shape[axis]);
    other[axis] = shape[axis];
    if (other != shape) throw ShapeError("elements that are joined differ in shape");
  }
  NDArray result = run.alloc(shape, parts[0].dtype());
  const Runs runs = RunsOf(shape, axis);
  const int64_t row = runs.inner * ElementBytes(result.dtype()), stride = shape[axis] * row;
  int64_t begin = 0;
  for (const NDArray& part : parts) {
    const int64_t size = part.shape()[axis] * row;
    CopyRuns(result.Data<char>() + begin, stride, part.Data<char>(), size, runs.outer, size);
    begin += size;
  }
  return CheckedTensor(result, args, 2);
}

ObjectRef None(HostRun&, const HostArgs&) { return AdtValue(kNoneTag, {}); }
ObjectRef Some(HostRun&, const HostArgs& args) { return AdtValue(kSomeTag, {args.at(0)}); }

ObjectRef Has(HostRun& run, const HostArgs& args) {
  const auto* data = args.at(0).as<AdtValueNode>();
  NDArray result = run.alloc({}, DataType::Bool());
  *result.Data<uint8_t>() = data == nullptr || data->tag != kNoneTag ? 1 : 0;
  return result;
}

/// The value of an optional; (optional, type): a tensor.
ObjectRef Get(HostRun& run, const HostArgs& args) {
  ObjectRef value = args.at(0);
  if (const auto* data = value.as<AdtValueNode>()) {
    if (data->tag == kNoneTag) throw RuntimeError("the optional value is absent");
    if (data->tag == kSomeTag) value = data->fields.at(0);
  }
  if (args.size() > 1) return CheckedTensor(value, args, 1);
  SequenceArg(run, {value}, 0);
  return value;
}

/// (rows (n, keys), keys (keys)): a sequence of n maps.
template <int64_t kTag>
ObjectRef ZipMap(HostRun&, const HostArgs& args) {
  NDArray rows = TensorArg(args, 0), keys = TensorArg(args, 1);
  if (rows.ndim() != 2 || keys.ndim() != 1 || rows.shape()[1] != keys.shape()[0]) {
    throw ShapeError(StrCat(ShapeString(rows.shape()), " values for ", ShapeString(keys.shape()), " keys"));
  }
  return AdtValue(kTag, {keys, rows});
}

/// (map, type): field kField, a vector whose type is checked.
template <size_t kField>
ObjectRef MapField(HostRun&, const HostArgs& args) {
  const auto* data = args.at(0).as<AdtValueNode>();
  if (data == nullptr || (data->tag != kMapTag && data->tag != kTextMapTag)) throw RuntimeError("not a map");
  return CheckedTensor(data->fields.at(kField), args, 1);
}

}  // namespace

void AddSequenceFunctions(HostTable* table) {
  (*table)["sequence.make"] = Make;
  (*table)["sequence.at"] = At;
  (*table)["sequence.length"] = Length;
  (*table)["sequence.insert"] = Insert;
  (*table)["sequence.erase"] = Erase;
  (*table)["sequence.split"] = Split;
  (*table)["sequence.concat"] = Concat;
  (*table)["optional.none"] = None;
  (*table)["optional.some"] = Some;
  (*table)["optional.has"] = Has;
  (*table)["optional.get"] = Get;
  (*table)["map.zip"] = ZipMap<kMapsTag>;
  (*table)["map.zip_text"] = ZipMap<kTextMapsTag>;
  (*table)["map.keys"] = MapField<0>;
  (*table)["map.values"] = MapField<1>;
}

}  // namespace treadle::runtime::vm
