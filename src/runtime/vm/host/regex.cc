// SPDX-License-Identifier: Apache-2.0
#include "treadle/runtime/regex.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "runtime/vm/host/utf8.h"
#include "treadle/base/error.h"

namespace treadle::runtime {
namespace {

using Kind = Regex::Kind;
using Ranges = std::vector<Regex::Range>;

constexpr size_t kMaxStates = 100000;
constexpr int kMaxDepth = 200;
constexpr int kMaxRepeat = 1000;
constexpr uint32_t kLargest = 0x10ffff;

const Ranges& Digits() {
  static const Ranges ranges{{'0', '9'}};
  return ranges;
}
const Ranges& Words() {
  static const Ranges ranges{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return ranges;
}
const Ranges& Spaces() {
  static const Ranges ranges{{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
  return ranges;
}
bool IsWord(uint32_t c) { return c < 128 && (std::isalnum(static_cast<int>(c)) != 0 || c == '_'); }

/// What is matched by ranges, without them.
Ranges Complement(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) { return a.low < b.low; });
  Ranges rest;
  uint32_t from = 0;
  for (const Regex::Range& range : ranges) {
    if (range.low > from) rest.push_back({from, range.low - 1});
    from = std::max(from, range.high + 1);
  }
  if (from <= kLargest) rest.push_back({from, kLargest});
  return rest;
}

/// A pattern's parts.
struct Node {
  enum class Type { kSet, kConcat, kAlternate, kRepeat, kAssert } type;
  Regex::Set set;
  std::vector<std::unique_ptr<Node>> parts;
  int least = 0, most = -1;  ///< of kRepeat; -1: any number
  Kind assertion = Kind::kBegin;
};
using NodePtr = std::unique_ptr<Node>;

class Parser {
 public:
  explicit Parser(std::string_view pattern) : text_(Utf8CodePoints(pattern)) {}

  NodePtr Run() {
    NodePtr node = Alternate(0);
    if (at_ < text_.size()) Fail("unexpected )");
    return node;
  }

 private:
  [[noreturn]] void Fail(const std::string& problem) const {
    throw Error(StrCat("regular expression, character ", at_, ": ", problem));
  }
  bool Done() const { return at_ >= text_.size(); }
  bool Accept(uint32_t c) {
    if (Done() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  uint32_t Next() {
    if (Done()) Fail("unexpected end");
    return text_[at_++];
  }
  static NodePtr Make(Node::Type type) {
    auto node = std::make_unique<Node>();
    node->type = type;
    return node;
  }
  NodePtr SetNode(Ranges ranges, bool negated = false) const {
    NodePtr node = Make(Node::Type::kSet);
    if (ignore_case_) {
      const size_t count = ranges.size();
      for (size_t i = 0; i < count; ++i) {
        for (uint32_t c = 'a'; c <= 'z'; ++c) {
          const uint32_t upper = c - 'a' + 'A';
          if (ranges[i].low <= c && c <= ranges[i].high) ranges.push_back({upper, upper});
          if (ranges[i].low <= upper && upper <= ranges[i].high) ranges.push_back({c, c});
        }
      }
    }
    node->set = {std::move(ranges), negated};
    return node;
  }
  static NodePtr Assertion(Kind kind) {
    NodePtr node = Make(Node::Type::kAssert);
    node->assertion = kind;
    return node;
  }

  NodePtr Alternate(int depth) {
    if (depth > kMaxDepth) Fail("groups are nested too deep");
    NodePtr node = Make(Node::Type::kAlternate);
    do node->parts.push_back(Sequence(depth));
    while (Accept('|'));
    return node->parts.size() == 1 ? std::move(node->parts[0]) : std::move(node);
  }

  NodePtr Sequence(int depth) {
    NodePtr node = Make(Node::Type::kConcat);
    while (!Done() && text_[at_] != '|' && text_[at_] != ')') node->parts.push_back(Repeat(Atom(depth)));
    return node;
  }

  NodePtr Repeat(NodePtr atom) {
    NodePtr node = Make(Node::Type::kRepeat);
    const size_t before = at_;
    if (Accept('*')) {
    } else if (Accept('+')) {
      node->least = 1;
    } else if (Accept('?')) {
      node->most = 1;
    } else if (!Accept('{')) {
      return atom;
    } else if (!Bounds(&node->least, &node->most)) {
      at_ = before;  // a brace that stands for itself
      return atom;
    }
    Accept('?');  // shortest matches first: the same for a whole match
    if (!Done() && (text_[at_] == '*' || text_[at_] == '+' || text_[at_] == '?')) Fail("nothing to repeat");
    node->parts.push_back(std::move(atom));
    return node;
  }

  std::optional<int> Number() {
    if (Done() || text_[at_] < '0' || text_[at_] > '9') return std::nullopt;
    int value = 0;
    while (!Done() && text_[at_] >= '0' && text_[at_] <= '9') {
      value = std::min(value * 10 + static_cast<int>(text_[at_++] - '0'), kMaxRepeat + 1);
    }
    return value;
  }
  bool Bounds(int* least, int* most) {
    auto low = Number();
    if (!low) return false;
    *least = *most = *low;
    if (Accept(',')) *most = Number().value_or(-1);
    if (!Accept('}')) return false;
    if (*least > kMaxRepeat || *most > kMaxRepeat) Fail(StrCat("more than ", kMaxRepeat, " repeats"));
    if (*most >= 0 && *most < *least) Fail("the minimum of a repetition exceeds its maximum");
    return true;
  }

  NodePtr Atom(int depth) {
    const uint32_t c = Next();
    switch (c) {
      case '.':
        return SetNode(dot_all_ ? Ranges{} : Ranges{{'\n', '\n'}}, true);
      case '^':
        return Assertion(Kind::kBegin);
      case '$':
        return Assertion(Kind::kEnd);
      case '(':
        return Group(depth);
      case '[':
        return Class();
      case '\\':
        return EscapedAtom();
      case '*':
      case '+':
      case '?':
        Fail("nothing to repeat");
      default:
        return SetNode({{c, c}});
    }
  }

  NodePtr Group(int depth) {
    const bool ignore_case = ignore_case_, dot_all = dot_all_;
    if (Accept('?')) {
      if (Accept('P') || (!Done() && text_[at_] == '<')) {
        if (!Accept('<') || Done() || text_[at_] == '=' || text_[at_] == '!') Fail("this group isn't supported");
        const size_t name = at_;
        for (uint32_t c = Next(); c != '>'; c = Next()) {
          if (!IsWord(c)) Fail("the name of a group has a character that isn't a letter, a digit or _");
        }
        if (at_ == name + 1) Fail("a group has an empty name");
      } else {
        while (!Done() && (text_[at_] == 'i' || text_[at_] == 's')) (Next() == 'i' ? ignore_case_ : dot_all_) = true;
        if (Accept(')')) return Make(Node::Type::kConcat);  // flags for what follows
        if (!Accept(':')) Fail("this group isn't supported");
      }
    }
    NodePtr node = Alternate(depth + 1);
    if (!Accept(')')) Fail("a ) is missing");
    ignore_case_ = ignore_case;
    dot_all_ = dot_all;
    return node;
  }

  /// The class that \d, \w, \s or one of their opposites names.
  static std::optional<Ranges> Named(uint32_t c) {
    switch (c) {
      case 'd':
        return Digits();
      case 'D':
        return Complement(Digits());
      case 'w':
        return Words();
      case 'W':
        return Complement(Words());
      case 's':
        return Spaces();
      case 'S':
        return Complement(Spaces());
      default:
        return std::nullopt;
    }
  }

  /// The character that an escape stands for.
  uint32_t Escaped(uint32_t c) {
    switch (c) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case 'a':
        return '\a';
      case 'x':
        return Hex();
      default:
        break;
    }
    if (c < 128 && std::isalnum(static_cast<int>(c)) != 0) Fail("this escape isn't supported");
    return c;
  }
  uint32_t Hex() {
    auto digit = [&](uint32_t c) -> uint32_t {
      if (c >= '0' && c <= '9') return c - '0';
      if (c >= 'a' && c <= 'f') return c - 'a' + 10;
      if (c >= 'A' && c <= 'F') return c - 'A' + 10;
      Fail("not a hexadecimal digit");
    };
    if (!Accept('{')) {
      const uint32_t high = digit(Next());
      return high * 16 + digit(Next());
    }
    uint32_t value = 0;
    while (!Accept('}')) {
      value = value * 16 + digit(Next());
      if (value > kLargest) Fail("no such character");
    }
    return value;
  }

  NodePtr EscapedAtom() {
    const uint32_t c = Next();
    if (auto ranges = Named(c)) return SetNode(*ranges);
    if (c == 'b' || c == 'B') return Assertion(c == 'b' ? Kind::kWordBoundary : Kind::kNoWordBoundary);
    if (c == 'A' || c == 'z') return Assertion(c == 'A' ? Kind::kBegin : Kind::kEnd);
    const uint32_t character = Escaped(c);
    return SetNode({{character, character}});
  }

  NodePtr Class() {
    const bool negated = Accept('^');
    Ranges ranges;
    for (bool first = true; first || Done() || text_[at_] != ']'; first = false) {
      uint32_t low = Next();
      if (low == '[' && !Done() && text_[at_] == ':') {
        Posix(&ranges);
        continue;
      }
      if (low == '\\') {
        const uint32_t c = Next();
        if (auto named = Named(c)) {
          ranges.insert(ranges.end(), named->begin(), named->end());
          continue;
        }
        low = Escaped(c);
      }
      uint32_t high = low;
      if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
        ++at_;
        high = Next();
        if (high == '\\') high = Escaped(Next());
        if (high < low) Fail("a character range is out of order");
      }
      ranges.push_back({low, high});
    }
    ++at_;
    return SetNode(std::move(ranges), negated);
  }

  void Posix(Ranges* ranges) {
    std::string name;
    ++at_;
    while (!Done() && text_[at_] != ':' && name.size() < 16) name += static_cast<char>(Next());
    if (!Accept(':') || !Accept(']')) Fail("malformed class");
    Ranges named;
    if (name == "alpha") named = {{'A', 'Z'}, {'a', 'z'}};
    if (name == "digit") named = Digits();
    if (name == "alnum") named = {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}};
    if (name == "upper") named = {{'A', 'Z'}};
    if (name == "lower") named = {{'a', 'z'}};
    if (name == "space") named = {{'\t', '\r'}, {' ', ' '}};
    if (name == "punct") named = {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}};
    if (name == "xdigit") named = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
    if (name == "word") named = Words();
    if (named.empty()) Fail(StrCat("no class is called ", StrCat("\"", name, "\"")));
    ranges->insert(ranges->end(), named.begin(), named.end());
  }

  std::vector<uint32_t> text_;
  size_t at_ = 0;
  bool ignore_case_ = false, dot_all_ = false;
};

/// States of a pattern's parts, from the last to the first: each is given what follows it.
class Compiler {
 public:
  Compiler(std::vector<Regex::State>* states, std::vector<Regex::Set>* sets) : states_(states), sets_(sets) {}

  int32_t Emit(Regex::State state) {
    if (states_->size() >= kMaxStates) throw Error("a regular expression needs too many states");
    states_->push_back(state);
    return static_cast<int32_t>(states_->size()) - 1;
  }

  int32_t Compile(const Node& node, int32_t next) {
    switch (node.type) {
      case Node::Type::kSet:
        sets_->push_back(node.set);
        return Emit({Kind::kSet, next, -1, static_cast<int32_t>(sets_->size()) - 1});
      case Node::Type::kAssert:
        return Emit({node.assertion, next});
      case Node::Type::kConcat:
        for (size_t i = node.parts.size(); i-- > 0;) next = Compile(*node.parts[i], next);
        return next;
      case Node::Type::kAlternate: {
        int32_t first = Compile(*node.parts.back(), next);
        for (size_t i = node.parts.size() - 1; i-- > 0;) {
          first = Emit({Kind::kSplit, Compile(*node.parts[i], next), first});
        }
        return first;
      }
      case Node::Type::kRepeat:
        return CompileRepeat(node, next);
    }
    return next;
  }

 private:
  int32_t CompileRepeat(const Node& node, int32_t next) {
    const Node& part = *node.parts[0];
    int32_t rest = next;
    if (node.most < 0) {
      const int32_t loop = Emit({Kind::kSplit, -1, next});
      const int32_t body = Compile(part, loop);
      (*states_)[static_cast<size_t>(loop)].next = body;
      rest = loop;
    } else {
      for (int i = node.least; i < node.most; ++i) rest = Emit({Kind::kSplit, Compile(part, rest), next});
    }
    for (int i = 0; i < node.least; ++i) rest = Compile(part, rest);
    return rest;
  }

  std::vector<Regex::State>* states_;
  std::vector<Regex::Set>* sets_;
};

}  // namespace

Regex::Regex(std::string_view pattern) {
  NodePtr root = Parser(pattern).Run();
  Compiler compiler(&states_, &sets_);
  const int32_t match = compiler.Emit({Kind::kMatch});
  start_ = compiler.Compile(*root, match);
}

bool Regex::Contains(const Set& set, uint32_t c) const {
  bool inside = false;
  for (const Range& range : set.ranges) inside = inside || (range.low <= c && c <= range.high);
  return inside != set.negated;
}

/// Adds a state and what is reached from it without a character.
void Regex::Add(int32_t state, bool begin, bool end, bool boundary, std::vector<int32_t>* list,
                std::vector<uint32_t>* marks, uint32_t mark) const {
  std::vector<int32_t> stack{state};
  while (!stack.empty()) {
    const int32_t at = stack.back();
    stack.pop_back();
    uint32_t& seen = (*marks)[static_cast<size_t>(at)];
    if (seen == mark) continue;
    seen = mark;
    const State& s = states_[static_cast<size_t>(at)];
    switch (s.kind) {
      case Kind::kSplit:
        stack.push_back(s.other);
        stack.push_back(s.next);
        break;
      case Kind::kJump:
        stack.push_back(s.next);
        break;
      case Kind::kBegin:
        if (begin) stack.push_back(s.next);
        break;
      case Kind::kEnd:
        if (end) stack.push_back(s.next);
        break;
      case Kind::kWordBoundary:
        if (boundary) stack.push_back(s.next);
        break;
      case Kind::kNoWordBoundary:
        if (!boundary) stack.push_back(s.next);
        break;
      default:
        list->push_back(at);
        break;
    }
  }
}

bool Regex::FullMatch(std::string_view text) const {
  const std::vector<uint32_t> characters = Utf8CodePoints(text);
  std::vector<int32_t> current, next;
  std::vector<uint32_t> marks(states_.size(), 0);
  const size_t length = characters.size();
  auto word = [&](size_t i) { return i < length && IsWord(characters[i]); };
  auto boundary = [&](size_t i) { return (i > 0 && word(i - 1)) != word(i); };
  Add(start_, true, length == 0, boundary(0), &current, &marks, 1);
  for (size_t i = 0; i < length && !current.empty(); ++i) {
    next.clear();
    for (int32_t at : current) {
      const State& s = states_[static_cast<size_t>(at)];
      if (s.kind != Kind::kSet || !Contains(sets_[static_cast<size_t>(s.set)], characters[i])) continue;
      Add(s.next, false, i + 1 == length, boundary(i + 1), &next, &marks, static_cast<uint32_t>(i + 2));
    }
    current.swap(next);
  }
  return std::any_of(current.begin(), current.end(),
                     [&](int32_t at) { return states_[static_cast<size_t>(at)].kind == Kind::kMatch; });
}

/// The first match from a position on, empty at the end of the text where there is none. All beginnings are walked at
/// once: states are in the order of the beginnings that reach them, so that of two in one state the first stays.
std::pair<size_t, size_t> Regex::Find(const std::vector<uint32_t>& characters, size_t from) const {
  const size_t length = characters.size();
  std::vector<int32_t> current, next;
  std::vector<size_t> begins, next_begins;
  std::vector<uint32_t> marks(states_.size(), 0);
  auto word = [&](size_t i) { return i < length && IsWord(characters[i]); };
  auto add = [&](int32_t state, size_t i, size_t begin, std::vector<int32_t>* list, std::vector<size_t>* list_begins) {
    Add(state, i == 0, i == length, (i > 0 && word(i - 1)) != word(i), list, &marks, static_cast<uint32_t>(i + 1));
    list_begins->resize(list->size(), begin);
  };
  std::pair<size_t, size_t> found{length, length};
  for (size_t i = from; i <= length; ++i) {
    const bool matched = found.first < found.second;
    if (!matched) add(start_, i, i, &current, &begins);
    if (current.empty() && matched) break;
    next.clear();
    next_begins.clear();
    for (size_t k = 0; k < current.size(); ++k) {
      const State& s = states_[static_cast<size_t>(current[k])];
      if (s.kind == Kind::kMatch && begins[k] < i) {
        // Those that begin later lose; states of the same beginning may still reach further.
        if (found.first == found.second || begins[k] <= found.first) found = {begins[k], i};
      }
    }
    for (size_t k = 0; k < current.size() && i < length; ++k) {
      if (found.first < found.second && begins[k] > found.first) continue;
      const State& s = states_[static_cast<size_t>(current[k])];
      if (s.kind != Kind::kSet || !Contains(sets_[static_cast<size_t>(s.set)], characters[i])) continue;
      add(s.next, i + 1, begins[k], &next, &next_begins);
    }
    current.swap(next);
    begins.swap(next_begins);
  }
  return found;
}

std::vector<std::pair<size_t, size_t>> Regex::FindAll(const std::vector<uint32_t>& characters) const {
  std::vector<std::pair<size_t, size_t>> parts;
  for (size_t at = 0; at < characters.size(); at = parts.back().second) {
    const std::pair<size_t, size_t> part = Find(characters, at);
    if (part.first == part.second) break;
    parts.push_back(part);
  }
  return parts;
}

}  // namespace treadle::runtime
