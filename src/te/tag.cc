// SPDX-License-Identifier: Apache-2.0
#include "treadle/te/tag.h"

#include <optional>
#include <utility>

namespace treadle::te {
namespace {

/// Calls visit(part) for what stands between separators.
template <typename Visit>
void Split(std::string_view text, char separator, Visit&& visit) {
  while (true) {
    const size_t end = text.find(separator);
    visit(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

/// The kinds that whole words name.
std::optional<ComputeKind> KindOfWord(std::string_view word) {
  static constexpr std::pair<std::string_view, ComputeKind> kWords[] = {
      {"elemwise", ComputeKind::kElementwise},      {"broadcast", ComputeKind::kBroadcast},
      {"injective", ComputeKind::kInjective},       {"comm_reduce", ComputeKind::kReduction},
      {"comm_reduce_idx", ComputeKind::kReduction},
  };
  for (const auto& [name, kind] : kWords) {
    if (word == name) return kind;
  }
  return std::nullopt;
}

/// The kinds that a part of a word names.
std::optional<ComputeKind> KindOfPart(std::string_view part) {
  static constexpr std::pair<std::string_view, ComputeKind> kParts[] = {
      {"conv", ComputeKind::kConv},   {"conv1d", ComputeKind::kConv},  {"conv2d", ComputeKind::kConv},
      {"conv3d", ComputeKind::kConv}, {"dense", ComputeKind::kMatmul}, {"matmul", ComputeKind::kMatmul},
      {"pool", ComputeKind::kPool},
  };
  for (const auto& [name, kind] : kParts) {
    if (part == name) return kind;
  }
  return std::nullopt;
}

}  // namespace

Tag Tag::Parse(std::string_view text) {
  Tag tag;
  tag.text = std::string(text);
  Split(text, ',', [&](std::string_view word) {
    tag.pads |= word == "pad";
    tag.constant |= word == "constant";
    if (tag.kind != ComputeKind::kOther) return;
    if (auto kind = KindOfWord(word)) {
      tag.kind = *kind;
      return;
    }
    Split(word, '_', [&](std::string_view part) {
      if (auto kind = KindOfPart(part); kind && tag.kind == ComputeKind::kOther) tag.kind = *kind;
    });
  });
  return tag;
}

}  // namespace treadle::te
