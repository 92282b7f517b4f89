// SPDX-License-Identifier: Apache-2.0
#include "treadle/ir/target.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "ir/x86_cpus.h"

namespace treadle {

TREADLE_DEFINE_NODE(TargetNode);

namespace {

struct KindInfo {
  const char* name;
  const char* doc;
  std::vector<std::string> keys;
  std::set<std::string> options;
};

const std::set<std::string>& CommonOptions() {
  static const std::set<std::string> options = {
      "keys",       "tag",     "libs",     "device",           "model", "host", "num-cores", "link-params", "opt-level",
      "system-lib", "runtime", "executor", "max_function_args"};
  return options;
}

const std::vector<KindInfo>& Kinds() {
  static const std::vector<KindInfo> kinds = {
      {"llvm",
       "native code for CPUs",
       {"cpu"},
       {"mcpu", "mattr", "mtriple", "mfloat-abi", "mabi", "fast-math", "vector-width", "debug-info",
        "emulate-intrinsics"}},
      {"c", "portable C99", {"cpu"}, {"mcpu", "march"}},
      {"stackvm", "interpreter", {"cpu"}, {}},
      {"opencl", "OpenCL C", {"opencl", "gpu"}, {"max_num_threads", "thread_warp_size"}},
      {"null", "a skeleton that refuses everything", {"cpu"}, {}},
  };
  return kinds;
}

const KindInfo& FindKind(const std::string& name) {
  std::string known;
  for (const auto& kind : Kinds()) {
    if (kind.name == name) return kind;
    known += (known.empty() ? "" : ", ") + std::string(kind.name);
  }
  throw TargetError(StrCat("unknown target kind \"", name, "\"; known are: ", known));
}

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

const std::map<std::string, std::string>& Tags() {
  static const std::map<std::string, std::string> tags = {
      {"host", "llvm -mcpu=native"},
      {"x86-64-v2", "llvm -mcpu=x86-64-v2 -mtriple=x86_64-unknown-linux-gnu"},
      {"x86-64-v3", "llvm -mcpu=x86-64-v3 -mtriple=x86_64-unknown-linux-gnu"},
      {"x86-64-v4", "llvm -mcpu=x86-64-v4 -mtriple=x86_64-unknown-linux-gnu"},
      {"aarch64", "llvm -mtriple=aarch64-unknown-linux-gnu -mcpu=generic"},
  };
  return tags;
}

void SetOption(TargetNode* node, const KindInfo& kind, const std::string& text, const std::string& word) {
  if (word.size() < 2 || word[0] != '-') {
    throw TargetError(StrCat("target \"", text, "\": expected an option -key=value, got \"", word, "\""));
  }
  std::string body = word.substr(word[1] == '-' ? 2 : 1);
  auto eq = body.find('=');
  std::string key = body.substr(0, eq);
  std::string value = eq == std::string::npos ? "1" : body.substr(eq + 1);
  if (kind.options.count(key) == 0 && CommonOptions().count(key) == 0) {
    std::string known;
    std::set<std::string> all = kind.options;
    all.insert(CommonOptions().begin(), CommonOptions().end());
    for (const auto& option : all) known += " -" + option;
    throw TargetError(StrCat("target \"", text, "\": ", kind.name, " has no option -", key, "; it takes:", known));
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

void ApplyFeatureFlags(const std::string& mattr, TargetFeatures* f) {
  for (const std::string& flag : SplitOn(mattr, ',')) {
    const bool on = flag[0] != '-';
    const std::string name = flag[0] == '+' || flag[0] == '-' ? flag.substr(1) : flag;
    if (name == "fma") f->fma = on;
    if (name == "f16c") f->f16_convert = on;
    if (name == "avx512vnni" || name == "avxvnni" || name == "dotprod") f->vnni = on;
    if (name == "avx" || name == "avx2") f->vector_bits = on ? std::max(f->vector_bits, 256) : 128;
    if (name == "avx512f") {
      f->vector_bits = on ? 512 : std::min(f->vector_bits, 256);
      f->vector_registers = on ? 32 : 16;
    }
  }
}

int UsableCores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

}  // namespace

Target::Target(const std::string& text) {
  std::string tag;
  auto words = Words(text);
  if (words.empty()) throw TargetError("the target string is empty; an example: \"llvm -mcpu=native\"");
  if (auto it = Tags().find(words[0]); it != Tags().end()) {
    tag = words[0];
    auto more = Words(it->second);
    more.insert(more.end(), words.begin() + 1, words.end());
    words = more;
  }
  const KindInfo& kind = FindKind(words[0]);
  auto node = MakeObject<TargetNode>();
  node->kind = kind.name;
  node->keys = kind.keys;
  node->tag = tag;
  for (size_t i = 1; i < words.size(); ++i) SetOption(node.get(), kind, text, words[i]);
  if (auto device = node->GetAttr("device"); device && !node->HasKey(*device)) {
    node->keys.insert(node->keys.begin(), *device);
  }
  node->GetIntAttr("num-cores", 1);
  if (int64_t level = node->GetIntAttr("opt-level", 3); level < 0 || level > 3) {
    throw TargetError(StrCat("target \"", text, "\": -opt-level is ", level, ", expected 0 to 3"));
  }
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

std::vector<std::pair<std::string, std::string>> Target::ListKinds() {
  std::vector<std::pair<std::string, std::string>> result;
  for (const auto& kind : Kinds()) result.emplace_back(kind.name, kind.doc);
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
  TargetFeatures f;
  const std::string triple = GetAttr("mtriple", "");
  const std::string cpu = GetAttr("mcpu", triple.empty() ? "native" : "generic");
#if defined(__aarch64__)
  f.arch = "aarch64";
#else
  f.arch = "x86_64";
#endif
  if (!triple.empty()) f.arch = triple.substr(0, triple.find('-'));
  const bool native = cpu == "native";
  if (f.arch == "x86_64") {
    if (native) {
      ApplyX86Host(&f);
    } else {
      ApplyX86Cpu(cpu, &f);
    }
  } else if (f.arch == "aarch64" || f.arch == "arm64") {
    f.vector_bits = 128;
    f.vector_registers = 32;
    f.fma = true;
    f.f16_convert = true;
  }
  if (kind != "llvm") f.fma = f.f16_convert = false;
  ApplyFeatureFlags(GetAttr("mattr", ""), &f);
  f.vector_bits = static_cast<int>(GetIntAttr("vector-width", f.vector_bits));
  if (native) ApplyHostCaches(&f);
  f.num_cores = static_cast<int>(GetIntAttr("num-cores", native ? UsableCores() : 1));
  return f;
}

}  // namespace treadle
