// SPDX-License-Identifier: Apache-2.0
// Operators on strings, and on bytes of compressed images.
#include <algorithm>

#include "frontend/onnx/compose.h"
#include "frontend/onnx/composed.h"
#include "frontend/onnx/values.h"
#include "treadle/runtime/regex.h"

namespace treadle::onnx {
namespace {

using relay::Expr;
using IntList = std::vector<int64_t>;

const DataType kInt64 = DataType::Int(64);

void CheckText(NodeImport& n, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    n.In(i);
    if (!n.IsText(i)) n.Invalid(StrCat("input ", i, " isn't of strings"));
  }
}

std::vector<std::string> Strings(NodeImport& n, const char* name) {
  const Attribute* strings = n.Find(name);
  if (strings == nullptr) return {};
  if (strings->type != Attribute::Type::kStrings) n.Invalid(StrCat("'", name, "' isn't a list of strings"));
  return strings->strings;
}

Expr ImportStringConcat(NodeImport& n) {
  CheckText(n, 2);
  n.MarkText();
  return HostCall(n, "string.concat", {n.In(0), n.In(1)}, {"tensor", kInt64, std::max(n.Rank(0), n.Rank(1))});
}

void CheckPattern(NodeImport& n, const std::string& pattern) {
  try {
    runtime::Regex checked(pattern);
  } catch (const Error& error) {
    n.Unsupported(error.what());
  }
}

Expr ImportRegexFullMatch(NodeImport& n) {
  CheckText(n, 1);
  const std::string pattern = n.Str("pattern");
  CheckPattern(n, pattern);
  return HostCall(n, "string.regex_full_match", {n.In(0), BytesConstant(n, pattern)},
                  {"tensor", DataType::Bool(), n.Rank(0)});
}

Expr ImportStringNormalizer(NodeImport& n) {
  CheckText(n, 1);
  n.MarkText();
  n.Ignore({"locale"});  // letters are Unicode's
  const std::string change = n.Str("case_change_action", "NONE");
  if (change != "NONE" && change != "LOWER" && change != "UPPER") {
    n.Invalid(StrCat("'case_change_action' is ", QuoteName(change)));
  }
  const int64_t action = change == "NONE" ? 0 : change == "LOWER" ? 1 : 2;
  Expr stopwords = TextVector(n, Strings(n, "stopwords"));
  Expr sensitive = IntNum(n, n.Flag("is_case_sensitive", false) ? 1 : 0);
  return HostCall(n, "string.normalize", {n.In(0), stopwords, IntNum(n, action), sensitive},
                  {"tensor", kInt64, n.Rank(0)});
}

std::vector<Expr> ImportStringSplit(NodeImport& n) {
  CheckText(n, 1);
  n.MarkText(0);
  Array<Expr> args{n.In(0), BytesConstant(n, n.Str("delimiter", "")), IntNum(n, n.Int("maxsplit", -1))};
  return {HostCall(n, "string.split", args, {"tensor", kInt64, n.Rank(0) + 1}),
          HostCall(n, "string.split_counts", args, {"tensor", kInt64, n.Rank(0)})};
}

/// Number of n-grams in a pool of `size` entries: those of n entries begin at counts[n - 1].
int64_t CountGrams(NodeImport& n, const IntList& counts, int64_t longest, int64_t size) {
  if (static_cast<int64_t>(counts.size()) < longest)
    n.Invalid(StrCat("'ngram_counts' has ", counts.size(), " entries, 'max_gram_length' is ", longest));
  int64_t grams = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const int64_t begin = counts[i], end = i + 1 < counts.size() ? counts[i + 1] : size;
    const auto length = static_cast<int64_t>(i) + 1;
    if (begin < 0 || end < begin || end > size || (end - begin) % length != 0)
      n.Invalid(StrCat("'ngram_counts' doesn't divide a pool of ", size, " entries: ", length, "-grams from ", begin,
                       " to ", end));
    grams += (end - begin) / length;
  }
  return grams;
}

/// Counts of n-grams, of strings or of integers.
Expr ImportTfIdfVectorizer(NodeImport& n) {
  const DataType dtype = n.DType(0);
  if (!n.IsText(0) && dtype != kInt64 && dtype != DataType::Int(32))
    n.Invalid(StrCat("the operand is ", dtype, ", expected strings, int32 or int64"));
  Term x = n.IsText(0) ? In(n, 0) : In(n, 0).As(kInt64);
  if (x.rank() < 1 || x.rank() > 2) n.Invalid(StrCat("the operand has rank ", x.rank(), ", expected 1 or 2"));
  const IntList counts = n.Ints("ngram_counts"), indexes = n.Ints("ngram_indexes");
  const int64_t shortest = n.Int("min_gram_length"), longest = n.Int("max_gram_length"),
                skips = n.Int("max_skip_count");
  if (shortest < 1 || longest < shortest || longest > 1000 || skips < 0 || skips > 100000) {
    n.Invalid("'min_gram_length', 'max_gram_length' or 'max_skip_count' is out of range");
  }
  const std::string mode = n.Str("mode");
  if (mode != "TF" && mode != "IDF" && mode != "TFIDF") n.Invalid(StrCat("'mode' is ", QuoteName(mode)));
  if (indexes.empty()) n.Invalid("'ngram_indexes' is empty");
  const int64_t columns = *std::max_element(indexes.begin(), indexes.end()) + 1;
  if (*std::min_element(indexes.begin(), indexes.end()) < 0 || columns > (int64_t{1} << 28)) {
    n.Invalid("'ngram_indexes' is out of range");
  }
  const bool text_pool = n.Find("pool_strings") != nullptr;
  if (text_pool != n.IsText(0)) n.Invalid("the pool and the operand are of different types");
  const std::vector<std::string> texts = Strings(n, "pool_strings");
  const IntList numbers = text_pool ? IntList() : n.Ints("pool_int64s");
  const auto size = static_cast<int64_t>(text_pool ? texts.size() : numbers.size());
  if (text_pool && !n.Ints("pool_int64s", IntList()).empty()) n.Invalid("there are two pools");
  const int64_t grams = CountGrams(n, counts, longest, size);
  if (static_cast<int64_t>(indexes.size()) != grams)
    n.Invalid(StrCat("'ngram_indexes' has ", indexes.size(), " entries, the pool ", grams, " n-grams"));
  Expr pool = text_pool ? TextVector(n, texts) : n.IntVector(numbers);
  const std::vector<double> weights = n.Floats("weights", std::vector<double>());
  Expr weight = n.Const(ArrayOf(weights, {static_cast<int64_t>(weights.size())}, DataType::Float(32)));
  const int64_t kind = mode == "TF" ? 0 : mode == "IDF" ? 1 : 2;
  Expr options = n.IntVector({shortest, longest, skips, columns, kind});
  return HostCall(n, "text.count_grams", {x, pool, n.IntVector(counts), n.IntVector(indexes), weight, options},
                  {"tensor", DataType::Float(32), x.rank()});
}

/// com.microsoft: strings to tokens, which are characters, what matches `tokenexp`, or what is between `separators`.
Expr ImportTokenizer(NodeImport& n) {
  CheckText(n, 1);
  n.MarkText();
  const int rank = n.Rank(0);
  if (rank < 1 || rank > 2) n.Invalid(StrCat("the operand has rank ", rank, ", expected 1 or 2"));
  std::vector<std::string> patterns = Strings(n, "separators");
  const std::string token = n.Str("tokenexp", "");
  if (patterns.empty() == token.empty()) n.Invalid("either 'separators' or 'tokenexp' is needed");
  const bool matches = !token.empty();
  if (matches) patterns = {token};
  const bool characters = patterns.size() == 1 && (patterns[0].empty() || (matches && patterns[0] == "."));
  const int64_t fewest = n.Int("mincharnum"), how = characters ? 0 : matches ? 1 : 2;
  if (fewest < 1 || (characters && fewest > 1)) n.Invalid(StrCat("'mincharnum' is ", fewest));
  if (characters) patterns.clear();
  for (const std::string& pattern : patterns) {
    if (pattern.empty()) n.Invalid("a separator is empty");
    CheckPattern(n, pattern);
  }
  Expr special = TextVector(n, {n.Str("pad_value"), "\x02", "\x03"});
  Expr options = n.IntVector({how, fewest, n.Flag("mark", false) ? 1 : 0});
  return HostCall(n, "text.tokenize", {n.In(0), TextVector(n, patterns), special, options},
                  {"tensor", kInt64, rank + 1});
}

Expr ImportImageDecoder(NodeImport& n) {
  const std::string format = n.Str("pixel_format", "RGB");
  if (format != "RGB" && format != "BGR" && format != "Grayscale") n.Invalid(StrCat("'pixel_format' is ", format));
  if (n.Rank(0) != 1 || n.DType(0) != DataType::UInt(8)) n.Invalid("the operand isn't a vector of bytes");
  const int64_t order = format == "RGB" ? 0 : format == "BGR" ? 1 : 2;
  return HostCall(n, "image.decode", {n.In(0), IntNum(n, order)}, {"tensor", DataType::UInt(8), 3});
}

}  // namespace

void RegisterTextRules(RuleTable& table) {
  table.Add1("StringConcat", {20}, ImportStringConcat);
  table.Add1("RegexFullMatch", {20}, ImportRegexFullMatch);
  table.Add1("StringNormalizer", {10}, ImportStringNormalizer);
  table.Add("StringSplit", {20}, ImportStringSplit);
  table.Add1("ImageDecoder", {20}, ImportImageDecoder);
  table.Add1("TfIdfVectorizer", {9}, ImportTfIdfVectorizer);
  table.Add1("com.microsoft.Tokenizer", {1}, ImportTokenizer);
}

}  // namespace treadle::onnx
