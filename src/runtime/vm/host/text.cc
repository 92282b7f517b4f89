// SPDX-License-Identifier: Apache-2.0
// Text: normalising and splitting strings, counting n-grams.
#include <locale.h>
#include <wctype.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "runtime/vm/host/host.h"
#include "runtime/vm/host/utf8.h"
#include "treadle/runtime/regex.h"

namespace treadle::runtime::vm {
namespace {

/// Letters as Unicode has them, whatever the process's locale.
std::string ChangeCase(std::string_view text, bool upper) {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  std::string out;
  for (uint32_t c : Utf8CodePoints(text)) {
    if (locale == nullptr) {
      const bool letter = upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z';
      AppendUtf8(letter ? c ^ 0x20 : c, &out);
    } else {
      const auto wide = static_cast<wint_t>(c);
      AppendUtf8(static_cast<uint32_t>(upper ? towupper_l(wide, locale) : towlower_l(wide, locale)), &out);
    }
  }
  return out;
}

/// (strings (c) or (1, c), stopwords, 0: as it is, 1: lower, 2: upper; whether stopwords are case sensitive). One
/// empty string where nothing is left.
ObjectRef Normalize(HostRun& run, const HostArgs& args) {
  const std::vector<int64_t> shape = TensorArg(args, 0).shape();
  if (shape.empty() || shape.size() > 2 || (shape.size() == 2 && shape[0] != 1)) {
    throw ShapeError(StrCat("strings of shape ", ShapeString(shape), "; expected (c,) or (1, c)"));
  }
  const int64_t change = IntArg(args, 2);
  const bool sensitive = IntArg(args, 3) != 0;
  std::set<std::string> stopwords;
  for (std::string_view word : TextsArg(run, args, 1)) {
    stopwords.insert(sensitive ? std::string(word) : ChangeCase(word, false));
  }
  std::vector<int64_t> numbers;
  for (std::string_view text : TextsArg(run, args, 0)) {
    if (stopwords.count(sensitive ? std::string(text) : ChangeCase(text, false)) != 0) continue;
    numbers.push_back(run.strings.Intern(change == 0 ? std::string(text) : ChangeCase(text, change == 2)));
  }
  if (numbers.empty()) numbers.push_back(run.strings.Intern(""));
  std::vector<int64_t> out(shape.size(), 1);
  out.back() = static_cast<int64_t>(numbers.size());
  return MakeInts(run, out, numbers);
}

/// The parts of a string: between delimiters, or (no delimiter) runs of what isn't white space.
std::vector<std::string_view> Parts(std::string_view text, std::string_view delimiter, int64_t most) {
  std::vector<std::string_view> parts;
  if (!delimiter.empty()) {
    for (size_t at = 0; most != 0 && (at = text.find(delimiter)) != std::string_view::npos; --most) {
      parts.push_back(text.substr(0, at));
      text.remove_prefix(at + delimiter.size());
    }
    parts.push_back(text);
    return parts;
  }
  constexpr std::string_view kSpaces = " \t\r\n\f\v";
  for (;; --most) {
    const size_t begin = text.find_first_not_of(kSpaces);
    if (begin == std::string_view::npos) return parts;
    text.remove_prefix(begin);
    if (most == 0) {
      parts.push_back(text);
      return parts;
    }
    const size_t end = std::min(text.find_first_of(kSpaces), text.size());
    parts.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::vector<std::vector<std::string_view>> SplitAll(HostRun& run, const HostArgs& args) {
  int64_t most = IntArg(args, 2);
  std::vector<std::vector<std::string_view>> all;
  for (std::string_view text : TextsArg(run, args, 0)) {
    const std::string_view delimiter = BytesArg(args, 1);
    // An empty string has no parts without a delimiter, else one.
    all.push_back(Parts(text, delimiter, most));
  }
  return all;
}

/// (strings, delimiter, greatest number of splits or -1): parts, filled with empty strings, in a new last dimension.
ObjectRef Split(HostRun& run, const HostArgs& args) {
  const auto all = SplitAll(run, args);
  size_t longest = 0;
  for (const auto& parts : all) longest = std::max(longest, parts.size());
  const int64_t empty = run.strings.Intern("");
  std::vector<int64_t> shape = TensorArg(args, 0).shape(), numbers;
  shape.push_back(static_cast<int64_t>(longest));
  for (const auto& parts : all) {
    for (size_t i = 0; i < longest; ++i) numbers.push_back(i < parts.size() ? run.strings.Intern(parts[i]) : empty);
  }
  return MakeInts(run, shape, numbers);
}

ObjectRef SplitCounts(HostRun& run, const HostArgs& args) {
  std::vector<int64_t> counts;
  for (const auto& parts : SplitAll(run, args)) counts.push_back(static_cast<int64_t>(parts.size()));
  return MakeInts(run, TensorArg(args, 0).shape(), counts);
}

std::string_view GramKey(const int64_t* elements, int64_t count) {
  return {reinterpret_cast<const char*>(elements), static_cast<size_t>(count) * sizeof(int64_t)};
}

/// n-grams by their elements, which stay in the pool: the first and the last index of what counts them; the others are
/// behind one another.
struct Grams {
  static constexpr size_t kNone = SIZE_MAX;
  std::unordered_map<std::string_view, std::pair<size_t, size_t>> found;
  std::vector<size_t> next;

  void Add(std::string_view gram, size_t index) {
    next.push_back(kNone);
    auto [it, fresh] = found.try_emplace(gram, index, index);
    if (fresh) return;
    next[it->second.second] = index;
    it->second.second = index;
  }
  size_t First(std::string_view gram) const {
    auto it = found.find(gram);
    return it == found.end() ? kNone : it->second.first;
  }
};

Grams GramsOf(const NDArray& pool, const NDArray& counts, size_t indexes) {
  Grams grams;
  grams.found.reserve(indexes);
  const int64_t* elements = pool.Data<int64_t>();
  size_t next = 0;
  for (int64_t k = 0; k < counts.size(); ++k) {
    const int64_t begin = counts.Data<int64_t>()[k];
    const int64_t end = k + 1 < counts.size() ? counts.Data<int64_t>()[k + 1] : pool.size();
    const int64_t length = k + 1;
    if (begin < 0 || end < begin || end > pool.size() || (end - begin) % length != 0) {
      throw RuntimeError("'ngram_counts' doesn't fit the pool of n-grams");
    }
    for (int64_t at = begin; at < end; at += length, ++next) {
      if (next >= indexes) throw RuntimeError("there are more n-grams than 'ngram_indexes'");
      grams.Add(GramKey(elements + at, length), next);
    }
  }
  return grams;
}

/// (X (c) or (n, c), pool, ngram_counts, ngram_indexes, weights, [shortest, longest, skips, columns, mode]): counts of
/// n-grams as float32 (.., columns). Modes: 0 numbers, 1 weights of those that occur, 2 numbers times weights.
ObjectRef CountGrams(HostRun& run, const HostArgs& args) {
  const DataType int64 = DataType::Int(64);
  NDArray x = TensorArg(args, 0, int64), pool = TensorArg(args, 1, int64), counts = TensorArg(args, 2, int64);
  NDArray indexes = TensorArg(args, 3, int64), weights = TensorArg(args, 4, DataType::Float(32));
  NDArray options = TensorArg(args, 5, int64);
  if (options.size() != 5 || x.ndim() < 1 || x.ndim() > 2) throw RuntimeError("the operands don't fit");
  if (weights.size() != 0 && weights.size() != indexes.size()) {
    throw RuntimeError("'weights' has another length than 'ngram_indexes'");
  }
  const int64_t* o = options.Data<int64_t>();
  const int64_t shortest = o[0], longest = o[1], skips = o[2], columns = o[3], mode = o[4];
  const Grams grams = GramsOf(pool, counts, static_cast<size_t>(indexes.size()));
  std::vector<int64_t> shape = x.shape();
  const int64_t length = shape.back(), rows = x.ndim() == 2 ? shape[0] : 1;
  shape.back() = columns;
  NDArray result = run.alloc(shape, DataType::Float(32));
  std::fill_n(result.Data<float>(), result.size(), 0.0F);
  std::vector<int64_t> gram;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t* from = x.Data<int64_t>() + row * length;
    float* to = result.Data<float>() + row * columns;
    for (int64_t size = shortest; size <= longest; ++size) {
      for (int64_t step = 1; step <= (size == 1 ? 1 : skips + 1); ++step) {
        for (int64_t at = 0; at + step * (size - 1) < length; ++at) {
          gram.clear();
          for (int64_t k = 0; k < size; ++k) gram.push_back(from[at + k * step]);
          for (size_t k = grams.First(GramKey(gram.data(), size)); k != Grams::kNone; k = grams.next[k]) {
            const int64_t column = indexes.Data<int64_t>()[k];
            if (column < 0 || column >= columns) throw RuntimeError("'ngram_indexes' is out of range");
            const float weight = weights.size() == 0 || mode == 0 ? 1.0F : weights.Data<float>()[k];
            to[column] = mode == 1 ? weight : to[column] + weight;
          }
        }
      }
    }
  }
  return result;
}

// ---- Tokens.

using Characters = std::vector<uint32_t>;

enum class Tokens : uint8_t { kCharacters, kMatches, kBetween };

std::vector<Characters> Tokenize(const Characters& text, Tokens how, const std::vector<Regex>& patterns) {
  std::vector<Characters> parts;
  auto part = [](const Characters& of, size_t begin, size_t end) {
    return Characters(of.begin() + static_cast<std::ptrdiff_t>(begin), of.begin() + static_cast<std::ptrdiff_t>(end));
  };
  if (how == Tokens::kCharacters) {
    for (uint32_t c : text) parts.push_back({c});
  } else if (how == Tokens::kMatches) {
    for (const auto& [begin, end] : patterns.at(0).FindAll(text)) parts.push_back(part(text, begin, end));
  } else {
    parts.push_back(text);
    for (const Regex& separator : patterns) {
      std::vector<Characters> smaller;
      for (const Characters& whole : parts) {
        size_t at = 0;
        for (const auto& [begin, end] : separator.FindAll(whole)) {
          smaller.push_back(part(whole, at, begin));
          at = end;
        }
        smaller.push_back(part(whole, at, whole.size()));
      }
      parts.swap(smaller);
    }
  }
  return parts;
}

/// (strings, patterns, {padding, start of text, end of text}, {how, fewest characters of a token, whether start and end
/// are marked}): the tokens of each string, padded to as many as the longest has.
ObjectRef TokenizeTexts(HostRun& run, const HostArgs& args) {
  std::vector<Regex> patterns;
  for (std::string_view pattern : TextsArg(run, args, 1)) patterns.emplace_back(pattern);
  const NDArray special = TensorArg(args, 2), options = TensorArg(args, 3);
  const auto* option = options.Data<int64_t>();
  const bool marked = option[2] != 0;
  std::vector<std::vector<int64_t>> rows;
  size_t most = 0;
  for (std::string_view text : TextsArg(run, args, 0)) {
    std::vector<int64_t>& row = rows.emplace_back();
    for (const Characters& token : Tokenize(Utf8CodePoints(text), static_cast<Tokens>(option[0]), patterns)) {
      if (token.empty() || static_cast<int64_t>(token.size()) < option[1]) continue;
      std::string bytes;
      for (uint32_t c : token) AppendUtf8(c, &bytes);
      row.push_back(run.strings.Intern(bytes));
    }
    most = std::max(most, row.size());
  }
  std::vector<int64_t> numbers;
  const auto* mark = special.Data<int64_t>();
  for (const std::vector<int64_t>& row : rows) {
    if (most == 0) break;
    if (marked) numbers.push_back(mark[1]);
    numbers.insert(numbers.end(), row.begin(), row.end());
    if (marked) numbers.push_back(mark[2]);
    numbers.insert(numbers.end(), most - row.size(), mark[0]);
  }
  std::vector<int64_t> shape = TensorArg(args, 0).shape();
  shape.push_back(static_cast<int64_t>(most == 0 ? 0 : most + (marked ? 2 : 0)));
  return MakeInts(run, shape, numbers);
}

}  // namespace

void AddTextFunctions(HostTable* table) {
  (*table)["string.normalize"] = Normalize;
  (*table)["string.split"] = Split;
  (*table)["string.split_counts"] = SplitCounts;
  (*table)["text.count_grams"] = CountGrams;
  (*table)["text.tokenize"] = TokenizeTexts;
}

}  // namespace treadle::runtime::vm
