// SPDX-License-Identifier: Apache-2.0
#include "ir/diagnostic.h"

#include <algorithm>

namespace treadle {
namespace {

/// Line `number` (1-based) of `text`; nothing when there is none.
std::optional<std::string> LineOf(const std::string& text, int number) {
  size_t begin = 0;
  for (int line = 1; line < number; ++line) {
    begin = text.find('\n', begin);
    if (begin == std::string::npos) return std::nullopt;
    ++begin;
  }
  size_t end = text.find_first_of("\r\n", begin);
  return text.substr(begin, end == std::string::npos ? std::string::npos : end - begin);
}

constexpr size_t kMaxShown = 160;  // columns of a source line: generated texts have lines of megabytes

}  // namespace

void Diagnostics::Error(const Span& span, const std::string& message) {
  if (known_.insert(span.str() + ": " + message).second) errors_.push_back({span, message});
}

std::string Diagnostics::RenderOne(const Diagnostic& diagnostic) const {
  std::string text = "error: " + diagnostic.message;
  const Span& span = diagnostic.span;
  if (!span.defined()) return text;
  if (span->line == 0) return text + "\n --> node '" + span->source_name + "'";
  text += "\n --> " + span.str();
  auto source = sources_.Get(span->source_name);
  if (!source) return text;
  auto line = LineOf(source->str(), span->line);
  if (!line) return text;
  std::string number = std::to_string(span->line);
  std::string margin(number.size(), ' ');
  size_t column = static_cast<size_t>(std::max(span->column, 1)) - 1;
  size_t end = span->end_line == span->line ? static_cast<size_t>(std::max(span->end_column, 1)) - 1 : line->size();
  size_t cut = column > kMaxShown / 2 && line->size() > kMaxShown ? column - kMaxShown / 2 : 0;
  std::string shown = line->substr(std::min(cut, line->size()), kMaxShown);
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  column -= cut;
  end = end > cut ? end - cut : 0;
  size_t width = end > column ? std::min(end, std::max(shown.size(), column + 1)) - column : 1;
  text += "\n " + margin + " |\n " + number + " | " + shown + "\n " + margin + " | " + std::string(column, ' ') +
          std::string(std::max<size_t>(width, 1), '^');
  return text;
}

std::string Diagnostics::Render(size_t limit) const {
  std::vector<const Diagnostic*> order;
  for (const Diagnostic& d : errors_) order.push_back(&d);
  std::sort(order.begin(), order.end(), [](const Diagnostic* a, const Diagnostic* b) {
    auto place = [](const Diagnostic* d) {
      return d->span.defined() ? std::pair(d->span->line, d->span->column) : std::pair(0, 0);
    };
    auto x = place(a), y = place(b);
    return x != y ? x < y : a < b;
  });
  std::string text;
  for (size_t i = 0; i < order.size() && i < limit; ++i) {
    if (i != 0) text += "\n";
    text += RenderOne(*order[i]);
  }
  if (order.size() > limit) text += StrCat("\nand ", order.size() - limit, " more errors");
  return text;
}

}  // namespace treadle
