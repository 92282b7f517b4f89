// SPDX-License-Identifier: Apache-2.0
// A compiled region as bytes: what the compiler writes and the run time reads.
#pragma once

#include <treadle/base/error.h>
#include <treadle/runtime/byte_stream.h>

#include <string>
#include <vector>

#include "isa.h"

namespace myaccel {

struct Program {
  uint32_t lines = 0;  ///< of device memory that it needs
  std::vector<Place> inputs, constants, outputs;
  std::vector<uint64_t> code;
};

inline int64_t BytesOf(const Place& place) {
  int64_t bytes = place.wide ? 4 : 1;
  for (int64_t dim : place.shape) bytes *= dim;
  return bytes;
}

inline constexpr uint32_t kMagic = 0x4c434341;  // "ACCL"

inline std::string WriteProgram(const Program& program) {
  treadle::runtime::ByteWriter writer;
  writer.Write<uint32_t>(kMagic);
  writer.Write<uint32_t>(program.lines);
  for (const auto* places : {&program.inputs, &program.constants, &program.outputs}) {
    writer.Write<uint64_t>(places->size());
    for (const Place& place : *places) {
      writer.Write<uint32_t>(place.line);
      writer.Write<uint32_t>(place.wide);
      writer.WriteU64s(std::vector<uint64_t>(place.shape.begin(), place.shape.end()));
    }
  }
  writer.WriteU64s(program.code);
  return writer.bytes();
}

/// Throws ModelFormatError unless all places lie within the program's memory.
inline Program ReadProgram(const std::string& bytes) {
  treadle::runtime::ByteReader reader(bytes, "program of the accelerator");
  if (reader.Read<uint32_t>() != kMagic) reader.Fail("it doesn't begin as one");
  Program program;
  program.lines = reader.Read<uint32_t>();
  if (program.lines > kMaxLine) reader.Fail("it needs more memory than there is");
  for (auto* places : {&program.inputs, &program.constants, &program.outputs}) {
    for (uint64_t count = reader.ReadCount(16); count > 0; --count) {
      Place place;
      place.line = reader.Read<uint32_t>();
      place.wide = reader.Read<uint32_t>() != 0;
      uint64_t bytes_left = uint64_t{program.lines} * kLineBytes / (place.wide ? 4 : 1);
      if (place.line > program.lines) reader.Fail("a tensor outside of its memory");
      bytes_left -= uint64_t{place.line} * kLineBytes / (place.wide ? 4 : 1);
      uint64_t size = 1;
      for (uint64_t dim : reader.ReadU64s()) {
        if (dim == 0 || dim > bytes_left || size > bytes_left / dim) reader.Fail("a tensor outside of its memory");
        size *= dim;
        place.shape.push_back(static_cast<int64_t>(dim));
      }
      places->push_back(place);
    }
  }
  program.code = reader.ReadU64s();
  reader.ExpectEnd();
  return program;
}

inline std::string Listing(const Program& program) {
  std::string text = "; " + std::to_string(program.lines) + " lines\n";
  for (size_t w = 0; w + 1 < program.code.size(); w += 2) {
    text += Disassemble(Decode(program.code[w], program.code[w + 1])) + "\n";
  }
  return text;
}

}  // namespace myaccel
