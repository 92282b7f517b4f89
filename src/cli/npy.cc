// SPDX-License-Identifier: Apache-2.0
// One array in NumPy's .npy format.
#include <cctype>
#include <cstring>

#include "cli/tensor_file.h"
#include "treadle/base/checked_math.h"
#include "treadle/base/error.h"

namespace treadle::cli {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicSize = 6;

[[noreturn]] void Bad(const std::string& what, const std::string& why) {
  throw ModelFormatError(StrCat(what, ": not a readable .npy array: ", why));
}

/// The header is the text of a Python dict: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
class HeaderParser {
 public:
  HeaderParser(const std::string& text, const std::string& what) : text_(text), what_(what) {}

  void Parse() {
    Expect('{');
    while (!Accept('}')) {
      std::string key = Quoted();
      Expect(':');
      if (key == "descr") {
        Skip();
        if (Peek() == '[') Bad(what_, "it holds records, not numbers");
        descr = Quoted();
      } else if (key == "fortran_order") {
        fortran_order = Word() == "True";
      } else if (key == "shape") {
        Shape();
      } else {
        Bad(what_, StrCat("unknown header key '", key, "'"));
      }
      Accept(',');
    }
    if (descr.empty() || !has_shape_) Bad(what_, "header without descr or shape");
  }

  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;

 private:
  char Peek() const { return position_ < text_.size() ? text_[position_] : '\0'; }
  void Skip() {
    while (std::isspace(static_cast<unsigned char>(Peek()))) ++position_;
  }
  bool Accept(char c) {
    Skip();
    if (Peek() != c) return false;
    ++position_;
    return true;
  }
  void Expect(char c) {
    if (!Accept(c)) Bad(what_, StrCat("malformed header: expected '", c, "' at position ", position_));
  }
  std::string Quoted() {
    Skip();
    const char quote = Peek();
    if (quote != '\'' && quote != '"') Bad(what_, "malformed header: expected a string");
    const size_t end = text_.find(quote, position_ + 1);
    if (end == std::string::npos) Bad(what_, "malformed header: string without an end");
    std::string result = text_.substr(position_ + 1, end - position_ - 1);
    position_ = end + 1;
    return result;
  }
  std::string Word() {
    Skip();
    const size_t begin = position_;
    while (std::isalpha(static_cast<unsigned char>(Peek()))) ++position_;
    return text_.substr(begin, position_ - begin);
  }
  void Shape() {
    has_shape_ = true;
    Expect('(');
    while (!Accept(')')) {
      Skip();
      if (!std::isdigit(static_cast<unsigned char>(Peek()))) Bad(what_, "malformed shape");
      int64_t value = 0;
      while (std::isdigit(static_cast<unsigned char>(Peek()))) {
        value = CheckedAdd<int64_t>(CheckedMul<int64_t>(value, 10), Peek() - '0');
        ++position_;
      }
      if (Peek() == 'L') ++position_;  // as Python 2 wrote
      shape.push_back(value);
      Accept(',');
    }
  }

  const std::string& text_;
  const std::string& what_;
  size_t position_ = 0;
  bool has_shape_ = false;
};

DataType TypeOfDescr(const std::string& descr, const std::string& what) {
  const char order = descr[0];
  const std::string rest = descr.substr(order == '<' || order == '>' || order == '|' || order == '=' ? 1 : 0);
  if (rest == "b1") return DataType::Bool();
  if (rest.size() == 2 && std::strchr("1248", rest[1]) != nullptr) {
    const int bits = (rest[1] - '0') * 8;
    if (bits > 8 && order == '>') Bad(what, "its numbers are big-endian");
    if (rest[0] == 'i') return DataType::Int(bits);
    if (rest[0] == 'u') return DataType::UInt(bits);
    if (rest[0] == 'f' && bits > 8) return DataType::Float(bits);
  }
  throw DTypeError(
      StrCat(what, ": NumPy type '", descr, "' isn't supported; expected bool, (u)int8 to 64 or float16 to 64"));
}

std::string DescrOfType(DataType dtype) {
  if (dtype.is_scalar()) {
    const int bytes = dtype.bytes();
    const char* order = bytes == 1 ? "|" : "<";
    if (dtype.is_bool()) return "|b1";
    if (dtype.is_int() && dtype.bits() >= 8) return StrCat(order, "i", bytes);
    if (dtype.is_uint() && dtype.bits() >= 8) return StrCat(order, "u", bytes);
    if (dtype.is_float() && dtype.bits() >= 16) return StrCat(order, "f", bytes);
    if (dtype.is_bfloat16()) return "<V2";  // as NumPy saves ml_dtypes.bfloat16
    if (dtype.is_float8()) return "|V1";
  }
  throw DTypeError(StrCat("a tensor of type ", dtype, " can't be written as .npy"));
}

/// Copies from column-major to row-major order.
void Reorder(const char* from, char* to, const std::vector<int64_t>& shape, size_t element) {
  const int64_t count = NumElements(shape);
  if (count == 0) return;  // other dimensions may be of any size
  std::vector<int64_t> index(shape.size(), 0);
  std::vector<int64_t> stride(shape.size(), 1);
  for (size_t d = 1; d < shape.size(); ++d) stride[d] = stride[d - 1] * shape[d - 1];
  int64_t offset = 0;
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * element, from + offset * element, element);
    for (size_t d = shape.size(); d-- > 0;) {
      offset += stride[d];
      if (++index[d] < shape[d]) break;
      offset -= stride[d] * shape[d];
      index[d] = 0;
    }
  }
}

}  // namespace

NDArray ParseNpy(const std::string& bytes, const std::string& what) {
  if (bytes.size() < 10 || std::memcmp(bytes.data(), kMagic, kMagicSize) != 0) Bad(what, "it doesn't start as one");
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
  const size_t version = byte(6);
  if (version < 1 || version > 3) Bad(what, StrCat("format version ", version, " is unknown"));
  const size_t prefix = version == 1 ? 10 : 12;
  if (bytes.size() < prefix) Bad(what, "truncated header");
  size_t header_size = byte(8) | byte(9) << 8;
  if (version > 1) header_size |= byte(10) << 16 | byte(11) << 24;
  if (header_size > bytes.size() - prefix) Bad(what, "truncated header");

  const std::string header = bytes.substr(prefix, header_size);
  HeaderParser parser(header, what);
  parser.Parse();
  const DataType dtype = TypeOfDescr(parser.descr, what);
  const int64_t size = runtime::TensorBytes(parser.shape, dtype);
  const size_t begin = prefix + header_size;
  if (static_cast<int64_t>(bytes.size() - begin) < size) {
    Bad(what, StrCat("truncated: ", bytes.size() - begin, " of ", size, " bytes of data"));
  }
  NDArray result = NDArray::Empty(parser.shape, dtype);
  char* data = static_cast<char*>(result.data_ptr());
  if (parser.fortran_order && parser.shape.size() > 1) {
    Reorder(bytes.data() + begin, data, parser.shape, static_cast<size_t>(dtype.bytes()));
  } else if (size > 0) {
    std::memcpy(data, bytes.data() + begin, static_cast<size_t>(size));
  }
  return result;
}

std::string FormatNpy(const NDArray& tensor) {
  const NDArray compact = tensor.IsCompact() && tensor.device().device_type == kDLCPU ? tensor : tensor.Copy();
  std::string header = StrCat("{'descr': '", DescrOfType(compact.dtype()), "', 'fortran_order': False, 'shape': (");
  for (int64_t dim : compact.shape()) header += StrCat(dim, ",", compact.ndim() > 1 ? " " : "");
  header += "), }";
  // The data starts at a multiple of 64 bytes, and the header ends in a newline.
  const size_t prefix = 10;
  header += std::string(63 - (prefix + header.size()) % 64, ' ') + "\n";
  std::string result(kMagic, kMagicSize);
  result += '\1';
  result += '\0';
  result += static_cast<char>(header.size() & 0xff);
  result += static_cast<char>(header.size() >> 8);
  result += header;
  result.append(static_cast<const char*>(compact.data_ptr()), static_cast<size_t>(compact.nbytes()));
  return result;
}

}  // namespace treadle::cli
