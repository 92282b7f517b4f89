// SPDX-License-Identifier: Apache-2.0
// Layouts: the order in which the dimensions of a tensor are stored, as TVM spells it. A capital letter is a dimension,
// a number and a small letter an inner block of that dimension: a tensor in NCHW16c has shape (N, C / 16, H, W, 16).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace treadle {

/// One dimension of a tensor in a layout.
struct LayoutAxis {
  char name = 0;       ///< 'C' of a whole or outer dimension, 'c' of an inner block
  int64_t factor = 0;  ///< elements of an inner block; 0 for capitals
  bool is_inner() const { return factor != 0; }
  /// The dimension that the axis is, or is a block of: a capital letter.
  char primal() const { return is_inner() ? static_cast<char>(name - 'a' + 'A') : name; }
  bool operator==(const LayoutAxis&) const = default;
};

/// An immutable value, cheap to copy. Attributes of operators keep layouts as text; a text is parsed when it is first
/// met, later ones of the same spelling share the result.
class Layout {
 public:
  static constexpr size_t kMaxText = 128;         ///< characters
  static constexpr int64_t kMaxFactor = 1 << 20;  ///< elements of an inner block

  /// No dimensions: the layout of a scalar.
  Layout();
  /// Throws ShapeError unless `text` is a layout of one or more dimensions: the message quotes it, says at which
  /// character (from 1) it is wrong, and why.
  explicit Layout(std::string_view text);

  size_t ndim() const { return axes().size(); }
  const std::vector<LayoutAxis>& axes() const { return rep_->axes; }
  const LayoutAxis& operator[](size_t i) const { return rep_->axes[i]; }
  /// As it was spelled: "NCHW16c".
  const std::string& str() const { return rep_->text; }
  /// The dimensions in their order, without blocks: "NCHW" of NCHW16c.
  const std::string& primal_axes() const { return rep_->primal_axes; }

  /// Position of the axis of that name ('C', 'c'), or -1.
  int IndexOf(char name) const;
  /// Elements of the inner block of dimension `primal` (a capital letter); 1 where it has none.
  int64_t BlockOf(char primal) const;
  /// Whether no dimension is split into blocks.
  bool IsPlain() const { return ndim() == primal_axes().size(); }
  /// Whether `other` has the same axes, blocks of the same sizes among them, in some order.
  bool HasAxesOf(const Layout& other) const;

  bool operator==(const Layout& other) const { return rep_ == other.rep_ || axes() == other.axes(); }
  size_t Hash() const { return std::hash<std::string>()(str()); }

 private:
  struct Rep {
    std::string text, primal_axes;
    std::vector<LayoutAxis> axes;
  };
  static std::shared_ptr<const Rep> Parse(std::string_view text);
  static std::shared_ptr<const Rep> Find(std::string_view text);
  std::shared_ptr<const Rep> rep_;
};

}  // namespace treadle

template <>
struct std::hash<treadle::Layout> {
  size_t operator()(const treadle::Layout& layout) const { return layout.Hash(); }
};
