// SPDX-License-Identifier: Apache-2.0
// Instructions of the accelerator, and the program that its compiler hands to its run time.
//
// The device has its own memory, addressed by lines of 64 bytes, and one unit for matrices of 8-bit integers with
// 32-bit accumulators. An instruction is two words of 64 bits:
//   word 0: bits 63-56 operation, 55-48 immediate, 47-24 destination line, 23-0 line of the first operand
//   word 1: bits 63-42 line of the second operand, 41-28 m, 27-14 n, 13-0 k
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace myaccel {

enum class Op : uint8_t {
  kHalt = 0,
  kDense = 1,   ///< int32 (m, n) = int8 (m, k) times the transpose of int8 (n, k)
  kAdd = 2,     ///< int32 (m, n) = int32 (m, n) + int32 (m, n), or + int32 (n) in each row when the immediate is 1
  kRelu = 3,    ///< int32 (m, n): the greater of 0 and the element
  kShift = 4,   ///< int32 (m, n) >> immediate
  kNarrow = 5,  ///< int8 (m, n) = int32 (m, n) limited to -128 .. 127, or to 0 .. 127 when the immediate is 1
};

struct Instruction {
  Op op = Op::kHalt;
  uint8_t immediate = 0;
  uint32_t dst = 0, a = 0, b = 0;  ///< lines
  uint32_t m = 0, n = 0, k = 0;
};

inline constexpr uint32_t kLineBytes = 64;
inline constexpr uint32_t kMaxDim = (1u << 14) - 1;
inline constexpr uint32_t kMaxLine = (1u << 22) - 1;  // the second operand's field is the narrowest

inline void Encode(const Instruction& i, std::vector<uint64_t>* words) {
  if (i.m > kMaxDim || i.n > kMaxDim || i.k > kMaxDim) throw std::runtime_error("a dimension above 16383");
  if (i.dst > kMaxLine || i.a > kMaxLine || i.b > kMaxLine)
    throw std::runtime_error("the region needs too much memory");
  words->push_back(uint64_t{static_cast<uint8_t>(i.op)} << 56 | uint64_t{i.immediate} << 48 | uint64_t{i.dst} << 24 |
                   i.a);
  words->push_back(uint64_t{i.b} << 42 | uint64_t{i.m} << 28 | uint64_t{i.n} << 14 | i.k);
}

inline Instruction Decode(uint64_t w0, uint64_t w1) {
  Instruction i;
  i.op = static_cast<Op>(w0 >> 56);
  i.immediate = static_cast<uint8_t>(w0 >> 48);
  i.dst = static_cast<uint32_t>(w0 >> 24) & 0xffffff;
  i.a = static_cast<uint32_t>(w0) & 0xffffff;
  i.b = static_cast<uint32_t>(w1 >> 42);
  i.m = static_cast<uint32_t>(w1 >> 28) & kMaxDim;
  i.n = static_cast<uint32_t>(w1 >> 14) & kMaxDim;
  i.k = static_cast<uint32_t>(w1) & kMaxDim;
  return i;
}

/// One line of text per instruction, for people.
inline std::string Disassemble(const Instruction& i) {
  static const char* names[] = {"halt", "dense", "add", "relu", "shift", "narrow"};
  auto op = static_cast<size_t>(i.op);
  std::string text = op < 6 ? names[op] : "?";
  text += " @" + std::to_string(i.dst) + " <- @" + std::to_string(i.a);
  if (i.op == Op::kDense || i.op == Op::kAdd) text += ", @" + std::to_string(i.b);
  text += " (" + std::to_string(i.m) + ", " + std::to_string(i.n) + ", " + std::to_string(i.k) + ") #" +
          std::to_string(i.immediate);
  return text;
}

/// A tensor's place in the memory of the device.
struct Place {
  std::vector<int64_t> shape;
  bool wide = false;  ///< int32 rather than int8
  uint32_t line = 0;
};

}  // namespace myaccel
