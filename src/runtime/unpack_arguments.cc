// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/unpack_arguments.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "treadle/base/error.h"
#include "treadle/runtime/data_type.h"
#include "treadle/runtime/last_error.h"
#include "treadle/runtime/packed_func.h"

namespace treadle::runtime {
namespace {

class Unpacker {
 public:
  Unpacker(const TreadleValue* args, const int* codes, const int64_t* table, const char* names, void** data,
           int64_t* scalars)
      : args_(args), codes_(codes), table_(table), names_(names), data_(data), scalars_(scalars) {}

  void Run(int num_args) {
    const auto count = static_cast<int>(*table_);
    if (num_args != count) Fail(StrCat("num_args should be ", count, ", not ", num_args));
    CheckCodes(count);
    int64_t number = 0;
    const int64_t* at = table_ + 1;
    for (int i = 0; i < count; ++i) {
      at = *at == kTreadleArgTensor ? BindTensor(i, number++, at + 1) : at + 1;
    }
    // Reported after all else that is wrong.
    for (const Deferred& wrong : deferred_) {
      std::string value = std::to_string(wrong.size);
      if (wrong.size < 0) {
        const auto [slot, multiple] = MultipleOf(wrong.size);
        value = (multiple > 1 ? StrCat(multiple, " * ") : "") + Name(1 + tensors_ + slot);
      }
      Fail(StrCat("arg", wrong.arg, ".shape[", wrong.axis, "] is expected to equal ", value, ", not ", wrong.actual,
                  About(wrong.number)));
    }
  }

 private:
  struct Deferred {
    int arg;
    int64_t number, axis, size, actual;
  };

  /// The scalar that a negative size of the table is a multiple of.
  static std::pair<int64_t, int64_t> MultipleOf(int64_t size) {
    return {(-1 - size) % kTreadleArgMultiple, (-1 - size) / kTreadleArgMultiple + 1};
  }

  [[noreturn]] void Fail(const std::string& problem) const { throw Error(StrCat(Name(0), ": ", problem)); }

  /// Line `index` of the names.
  std::string Name(int64_t index) const {
    const char* begin = names_;
    for (; index > 0; --index) begin = std::strchr(begin, '\n') + 1;
    return {begin, std::strchr(begin, '\n')};
  }
  std::string About(int64_t number) const { return StrCat(" (tensor ", Name(1 + number), ")"); }

  /// Codes of all arguments, and the values of those that aren't tensors.
  void CheckCodes(int count) {
    const int64_t* at = table_ + 1;
    for (int i = 0; i < count; ++i) {
      const int64_t kind = *at++;
      if (kind == kTreadleArgTensor) {
        ++tensors_;
        at += 4 + at[3];
      }
      const int code = codes_[i];
      const bool pointer =
          code == kTreadleHandle || code == kTreadleDLTensor || code == kTreadleNDArray || code == kTreadleNull;
      const char* expected = kind == kTreadleArgFloat ? "float" : kind == kTreadleArgInt ? "int" : "pointer";
      const bool right = kind == kTreadleArgFloat ? code == kTreadleFloat
                         : kind == kTreadleArgInt ? code == kTreadleInt
                                                  : pointer;
      if (!right) Fail(StrCat("Expect arg[", i, "] to be ", expected, ", not ", TypeCodeName(code)));
      if (kind != kTreadleArgTensor) scalars_[known_++] = args_[i].v_int64;
    }
  }

  /// The end of its part of the table.
  const int64_t* BindTensor(int arg, int64_t number, const int64_t* at) {
    const auto* tensor = static_cast<const DLTensor*>(args_[arg].v_handle);
    if (tensor == nullptr) Fail(StrCat("arg", arg, " is expected to be a tensor, not null", About(number)));
    const auto code = static_cast<int>(at[0]), bits = static_cast<int>(at[1]), lanes = static_cast<int>(at[2]);
    const int64_t rank = at[3], *sizes = at + 4;
    if (tensor->ndim != rank)
      Fail(StrCat("arg", arg, ".ndim is expected to equal ", rank, ", not ", tensor->ndim, About(number)));
    const DataType expected(code, bits, lanes);
    const DLDataType type = tensor->dtype;
    bool same = type.code == code && type.bits == bits;
    // Bools come as DLPack's own kind or as bytes of 0 and 1.
    if (expected.is_bool()) same = same || (type.code == kDLBool && type.bits == 8);
    if (!same || type.lanes != lanes) {
      Fail(StrCat("arg", arg, ".dtype is expected to be ", expected, ", not ", DataType(type), About(number)));
    }
    for (int64_t k = 0; k < rank; ++k) {
      int64_t size = sizes[k];
      if (size < 0) {
        const auto [slot, multiple] = MultipleOf(size);
        if (slot == known_) scalars_[known_++] = tensor->shape[k] / multiple;
        size = scalars_[slot] * multiple;
      }
      if (tensor->shape[k] != size) deferred_.push_back({arg, number, k, sizes[k], tensor->shape[k]});
    }
    if (!IsCompact(*tensor)) Fail(StrCat("arg", arg, ".strides: expected to be compact array", About(number)));
    if (tensor->device.device_type != kDLCPU) {
      Fail(StrCat("arg", arg, ".device_type is expected to be ", static_cast<int>(kDLCPU), About(number)));
    }
    if (tensor->byte_offset != 0) Fail(StrCat("arg", arg, ".byte_offset is expected to equal 0", About(number)));
    data_[number] = tensor->data;
    return sizes + rank;
  }

  /// Strides may be absent; a dimension of extent 1 may have any.
  static bool IsCompact(const DLTensor& tensor) {
    if (tensor.strides == nullptr) return true;
    int64_t expected = 1;
    bool compact = true;
    for (int k = tensor.ndim; k-- > 0;) {
      if (tensor.shape[k] == 0) return true;
      compact = compact && (tensor.shape[k] == 1 || tensor.strides[k] == expected);
      expected *= tensor.shape[k];
    }
    return compact;
  }

  const TreadleValue* args_;
  const int* codes_;
  const int64_t* table_;
  const char* names_;
  void** data_;
  int64_t* scalars_;
  int64_t known_ = 0, tensors_ = 0;
  std::vector<Deferred> deferred_;
};

}  // namespace
}  // namespace treadle::runtime

int TreadleBackendUnpackArguments(const TreadleValue* args, const int* type_codes, int num_args, const int64_t* table,
                                  const char* names, void** data, int64_t* scalars) {
  try {
    treadle::runtime::Unpacker(args, type_codes, table, names, data, scalars).Run(num_args);
    return 0;
  } catch (...) {
    return treadle::runtime::SetLastErrorFromException();
  }
}
