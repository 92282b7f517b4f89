// SPDX-License-Identifier: Apache-2.0
#include "treadle/ir/target.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <utility>

#include "treadle/base/json.h"
#include "treadle/base/suggest.h"
#include "treadle/ir/target_kind.h"

namespace treadle {

TREADLE_DEFINE_NODE(TargetNode);

namespace {

/// What is registered. Entries stay where they are: references to them are handed out.
struct Registry {
  std::mutex mutex;
  std::map<std::string, TargetKind> kinds;
  std::vector<std::string> order;           ///< of registration
  std::map<std::string, std::string> tags;  ///< name -> target string

  static Registry& Global() {
    static auto* registry = new Registry();
    return *registry;
  }
  std::optional<std::string> TagText(const std::string& name) {
    std::lock_guard<std::mutex> lock(mutex);
    auto it = tags.find(name);
    return it == tags.end() ? std::nullopt : std::optional<std::string>(it->second);
  }
  /// "; did you mean 'llvm'?": the kind or short name that is nearest, or that other compilers call so. Under the
  /// mutex.
  std::string Meant(const std::string& name) const {
    static const std::map<std::string, std::string> aliases{{"cpu", "host"},      {"native", "host"}, {"x86", "host"},
                                                            {"x86_64", "host"},   {"x86-64", "host"}, {"amd64", "host"},
                                                            {"arm64", "aarch64"}, {"arm", "aarch64"}, {"cl", "opencl"}};
    if (const auto alias = aliases.find(name);
        alias != aliases.end() && (kinds.count(alias->second) + tags.count(alias->second) != 0))
      return StrCat("; did you mean '", alias->second, "'?");
    std::vector<std::string> names = order;
    for (const auto& [tag, text] : tags) names.push_back(tag);
    return DidYouMean(name, names);
  }
};

std::vector<std::string> SplitOn(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

/// Words separated by blanks; quotes (single or double) keep blanks.
std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  for (char c : text) {
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (!word.empty()) words.push_back(std::exchange(word, ""));
    } else {
      word += c;
    }
  }
  if (quote != 0) throw TargetError(StrCat("target \"", text, "\": a quote isn't closed"));
  if (!word.empty()) words.push_back(word);
  return words;
}

/// The words of a target given as JSON: {"kind": "llvm", "mcpu": "native", "keys": ["cpu"], "host": {"kind": "llvm"}}.
std::vector<std::string> JsonWords(const std::string& text) {
  const std::string help =
      "\nhelp: such as {\"kind\": \"llvm\", \"mcpu\": \"native\"}, or as text: \"llvm -mcpu=native\"";
  Json json;
  try {
    json = Json::parse(text);
  } catch (const JsonError& error) {
    const std::string why = error.what();  // "[json.exception.parse_error.101] parse error at .."
    const size_t begin = why.starts_with('[') ? why.find("] ") : std::string::npos;
    throw TargetError(StrCat(
        "a target given as JSON can't be read: ", begin == std::string::npos ? why : why.substr(begin + 2), help));
  }
  if (!json.contains("kind") || !json["kind"].is_string()) {
    throw TargetError(StrCat("target ", text, ": a target given as JSON needs \"kind\", a text", help));
  }
  std::vector<std::string> words{json["kind"].get<std::string>()};
  for (const auto& [key, value] : json.items()) {
    if (key == "kind") continue;
    std::string word;
    if (value.is_string()) {
      word = value.get<std::string>();
    } else if (value.is_boolean()) {
      word = value.get<bool>() ? "1" : "0";
    } else if (value.is_array()) {
      for (const Json& each : value) {
        if (!each.is_string())
          throw TargetError(StrCat("target ", text, ": ", key, ": expected a list of texts", help));
        word += StrCat(word.empty() ? "" : ",", each.get<std::string>());
      }
    } else if (value.is_object() && value.contains("host")) {
      throw TargetError(StrCat("target ", text, ": a host has no host of its own"));
    } else {
      word = value.dump();
    }
    words.push_back(StrCat("-", key, "=", word));
  }
  return words;
}

const TargetOption* FindOption(const std::vector<TargetOption>& options, const std::string& name) {
  auto it = std::find_if(options.begin(), options.end(), [&](const TargetOption& o) { return o.name == name; });
  return it == options.end() ? nullptr : &*it;
}

[[noreturn]] void UnknownOption(const TargetKind& kind, const std::string& text, const std::string& name) {
  std::set<std::string> names;
  for (const auto* options : {&kind.options, &CommonTargetOptions()}) {
    for (const TargetOption& option : *options) names.insert(option.name);
  }
  std::string known;
  for (const std::string& option : names) known += " -" + option;
  throw TargetError(StrCat("target \"", text, "\": ", kind.name, " has no option -", name,
                           DidYouMean(name, {names.begin(), names.end()}), "\nhelp: it takes", known));
}

bool Fits(const TargetOption& option, const std::string& value) {
  if (option.type == TargetOption::Type::kFlag) return value == "0" || value == "1";
  if (option.type == TargetOption::Type::kInteger) {
    int64_t number = 0;
    auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    return error == std::errc() && end == value.data() + value.size() && number >= option.min && number <= option.max;
  }
  return option.values.empty() || std::find(option.values.begin(), option.values.end(), value) != option.values.end();
}

void SetOption(TargetNode* node, const TargetKind& kind, const std::string& text, const std::string& word) {
  if (word.size() < 2 || word[0] != '-') {
    throw TargetError(StrCat("target \"", text, "\": expected an option -key=value, got \"", word, "\""));
  }
  std::string body = word.substr(word[1] == '-' ? 2 : 1);
  auto eq = body.find('=');
  std::string key = body.substr(0, eq);
  std::string value = eq == std::string::npos ? "1" : body.substr(eq + 1);
  const TargetOption* option = FindOption(kind.options, key);
  if (option == nullptr) option = FindOption(CommonTargetOptions(), key);
  if (option == nullptr) UnknownOption(kind, text, key);
  if (eq == std::string::npos && option->type != TargetOption::Type::kFlag) {
    throw TargetError(
        StrCat("target \"", text, "\": -", key, " needs a value, as in -", key, "=..; expected ", option->Expected()));
  }
  if (!Fits(*option, value)) {
    throw TargetError(StrCat("target \"", text, "\": -", key, " is \"", value, "\", expected ", option->Expected()));
  }
  if (key == "keys") {
    node->keys = SplitOn(value, ',');
  } else if (key == "tag") {
    node->tag = value;
  } else if (key == "host") {
    node->host = Target(value);
  } else {
    if (node->attrs.contains(key)) throw TargetError(StrCat("target \"", text, "\": -", key, " is given twice"));
    node->attrs.Set(key, value);
  }
}

}  // namespace

std::string TargetOption::TypeName() const {
  constexpr const char* kNames[] = {"text", "integer", "flag", "list", "target"};
  return kNames[static_cast<int>(type)];
}

std::string TargetOption::Expected() const {
  switch (type) {
    case Type::kFlag:
      return "0 or 1";
    case Type::kInteger:
      if (min == std::numeric_limits<int64_t>::min() && max == std::numeric_limits<int64_t>::max()) return "an integer";
      if (max == std::numeric_limits<int64_t>::max()) return StrCat("an integer, at least ", min);
      return StrCat("an integer from ", min, " to ", max);
    case Type::kTarget:
      return "a target";
    case Type::kList:
    case Type::kText:
      break;
  }
  if (values.empty()) return type == Type::kList ? "words separated by commas" : "a text";
  std::string all;
  for (size_t i = 0; i < values.size(); ++i) {
    all += StrCat(i == 0 ? "" : i + 1 == values.size() ? " or " : ", ", values[i]);
  }
  return all;
}

namespace {

/// Vectors of other widths have no register.
void CheckVectorWidth(const TargetNode& node, const std::string& text) {
  const int64_t bits = node.GetIntAttr("vector-width", 64);
  if (bits > 0 && (bits & (bits - 1)) == 0) return;
  throw TargetError(StrCat("target \"", text, "\": -vector-width is ", bits, " bits, expected a power of two"));
}

/// "+avx2,-fma": which of them exist is the code generator's to say.
void CheckFeatureFlags(const TargetNode& node, const std::string& text) {
  for (const std::string& flag : SplitOn(node.GetAttr("mattr", ""), ',')) {
    const bool word = flag.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-_", 1) == std::string::npos;
    if (flag.size() > 1 && (flag[0] == '+' || flag[0] == '-') && word) continue;
    throw TargetError(StrCat("target \"", text, "\": -mattr has \"", flag, "\", expected +feature or -feature"));
  }
}

}  // namespace

const std::vector<TargetOption>& CommonTargetOptions() {
  using Type = TargetOption::Type;
  constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max(), kMaxCores = 1 << 16;
  const TargetOption text_option;  // for the limits of options that have none
  static const auto* options = new std::vector<TargetOption>{
      {"keys", Type::kList, "families of schedules that suit the machine"},
      {"tag", Type::kText, "a name, for messages"},
      {"libs", Type::kList, "libraries (external code generators) that may take parts of models, best first"},
      {"device", Type::kText, "one more key"},
      {"model", Type::kText, "the machine's name, which records of measurements carry; code doesn't depend on it"},
      {"host", Type::kTarget, "what runs on the CPU beside a device"},
      {"num-cores", Type::kInteger, "threads that kernels are made for", 1, kMaxCores},
      {"link-params", Type::kFlag, "parameters lie in the library"},
      {"opt-level", Type::kInteger, "of code generation", 0, 3},
      {"system-lib", Type::kFlag, "functions of the runtime are called by name"},
      {"runtime", Type::kText, "the run-time library", text_option.min, text_option.max, {"cpp"}},
      {"executor", Type::kText, "what calls the kernels", text_option.min, text_option.max, {"graph", "vm"}},
      {"max_function_args", Type::kInteger, "arguments that a kernel may have; 0: no limit", 0, kMaxInt32},
  };
  return *options;
}

void RegisterTargetKind(TargetKind kind) {
  Registry& registry = Registry::Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  const std::string name = kind.name;
  if (name.empty() || name.find_first_of(" -=\"'") != std::string::npos) {
    throw TargetError(StrCat("a target kind can't be called \"", name, "\""));
  }
  auto taken = [&](const std::string& word) { return registry.kinds.count(word) + registry.tags.count(word) != 0; };
  if (taken(name)) throw TargetError(StrCat("there is a target kind \"", name, "\" already"));
  for (const TargetTag& tag : kind.tags) {
    if (taken(tag.name)) throw TargetError(StrCat("there is a target called \"", tag.name, "\" already"));
  }
  for (const TargetTag& tag : kind.tags) registry.tags.emplace(tag.name, tag.text);
  registry.order.push_back(name);
  registry.kinds.emplace(name, std::move(kind));
}

const TargetKind& GetTargetKind(const std::string& name) {
  Registry& registry = Registry::Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  auto it = registry.kinds.find(name);
  if (it != registry.kinds.end()) return it->second;
  if (name.find('/') != std::string::npos) {
    throw TargetError(StrCat("there is no target called \"", name, "\"; target.list_tags() names those there are",
                             registry.Meant(name)));
  }
  std::string known;
  for (const std::string& kind : registry.order) known += (known.empty() ? "" : ", ") + kind;
  throw TargetError(StrCat("unknown target kind \"", name, "\"; known are: ", known, registry.Meant(name)));
}

Target::Target(const std::string& text) {
  std::string tag;
  const size_t start = text.find_first_not_of(" \t\n");
  auto words = start != std::string::npos && text[start] == '{' ? JsonWords(text) : Words(text);
  if (words.empty()) throw TargetError("the target string is empty; an example: \"llvm -mcpu=native\"");
  if (auto meaning = Registry::Global().TagText(words[0])) {
    tag = words[0];
    auto more = Words(*meaning);
    more.insert(more.end(), words.begin() + 1, words.end());
    words = more;
  }
  const TargetKind& kind = GetTargetKind(words[0]);
  auto node = MakeObject<TargetNode>();
  node->kind = kind.name;
  node->keys = kind.keys;
  node->tag = tag;
  for (size_t i = 1; i < words.size(); ++i) SetOption(node.get(), kind, text, words[i]);
  if (auto device = node->GetAttr("device"); device && !node->HasKey(*device)) {
    node->keys.insert(node->keys.begin(), *device);
  }
  CheckVectorWidth(*node, text);
  CheckFeatureFlags(*node, text);
  data_ = node;
}

Target Target::WithHost(const Target& target, const Target& host) {
  if (target->host.defined()) {
    auto old = Downcast<Target>(target->host);
    if (old.str() != host.str()) {
      throw TargetError(StrCat("target \"", target.str(), "\" has host \"", old.str(), "\", which differs from \"",
                               host.str(), "\""));
    }
    return target;
  }
  auto node = MakeObject<TargetNode>(*target.get());
  node->host = host;
  return Target(ObjectPtr<Object>(node));
}

std::vector<std::pair<std::string, std::string>> Target::ListTags() {
  Registry& registry = Registry::Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  return {registry.tags.begin(), registry.tags.end()};
}

std::vector<std::pair<std::string, std::string>> Target::ListKinds() {
  Registry& registry = Registry::Global();
  std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<std::pair<std::string, std::string>> result;
  for (const std::string& name : registry.order) result.emplace_back(name, registry.kinds.at(name).doc);
  return result;
}

std::optional<std::string> TargetNode::GetAttr(const std::string& key) const {
  auto value = attrs.Get(key);
  if (!value) return std::nullopt;
  return value->str();
}

std::string TargetNode::GetAttr(const std::string& key, const std::string& otherwise) const {
  return GetAttr(key).value_or(otherwise);
}

int64_t TargetNode::GetIntAttr(const std::string& key, int64_t otherwise) const {
  auto text = GetAttr(key);
  if (!text) return otherwise;
  int64_t value = 0;
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) {
    throw TargetError(StrCat("target option -", key, "=", *text, ": expected an integer"));
  }
  return value;
}

bool TargetNode::HasKey(const std::string& key) const { return std::find(keys.begin(), keys.end(), key) != keys.end(); }

std::string TargetNode::str() const {
  std::map<std::string, std::string> sorted;
  for (const auto& [key, value] : attrs) sorted[key.str()] = value.str();
  std::string key_list;
  for (const auto& key : keys) key_list += (key_list.empty() ? "" : ",") + key;
  std::string result = kind + " -keys=" + key_list;
  for (const auto& [key, value] : sorted) {
    const bool quoted = value.find(' ') != std::string::npos;
    result += " -" + key + "=" + (quoted ? "\"" + value + "\"" : value);
  }
  if (host.defined()) result += " -host='" + Downcast<Target>(host).str() + "'";
  return result;
}

TargetFeatures TargetNode::Features() const {
  const TargetKind& known = GetTargetKind(kind);
  return known.features ? known.features(*this) : TargetFeatures();
}

}  // namespace treadle
