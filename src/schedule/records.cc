// SPDX-License-Identifier: Apache-2.0
#include "treadle/schedule/records.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>

#include "runtime/file_io.h"
#include "runtime/hash64.h"
#include "treadle/base/error.h"
#include "treadle/base/json.h"
#include "treadle/schedule/kernel.h"

namespace treadle::schedule {
namespace {

constexpr const char* kChecksum = "x";
constexpr size_t kMaxFaults = 100;

std::string Hex(uint64_t value) {
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016llx", static_cast<unsigned long long>(value));
  return digits;
}

/// The line of an object: its text with the checksum of that as last member.
std::string Seal(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::string sum = Hex(runtime::Hash64(text));
  text.pop_back();
  return StrCat(text, ",\"", kChecksum, "\":\"", sum, "\"}\n");
}

/// Splits what Seal made; false where the checksum isn't that of the rest.
bool Unseal(std::string line, std::string* content) {
  const std::string mark = StrCat(",\"", kChecksum, "\":\"");
  constexpr size_t kDigits = 16;
  const size_t tail = mark.size() + kDigits + 2;  // and `"}`
  if (line.size() <= tail || line.compare(line.size() - tail, mark.size(), mark) != 0) return false;
  const std::string sum = line.substr(line.size() - kDigits - 2, kDigits);
  line.resize(line.size() - tail);
  *content = line + "}";
  return Hex(runtime::Hash64(*content)) == sum;
}

double Number(const Json& json, const char* key) {
  const double value = json.at(key).get<double>();
  if (!std::isfinite(value) || value < 0) throw Error(StrCat("'", key, "' is no time or ratio"));
  return value;
}

TuningRecord FromObject(const Json& json) {
  TuningRecord r;
  r.problem = json.at("problem").dump();
  r.kernel = json.at("kernel").get<std::string>();
  r.plan = json.at("plan").dump();
  r.revision = json.at("rev").get<int>();
  r.schema = json.at("schema").get<std::string>();
  r.machine = json.at("m").get<std::string>();
  r.threads = json.at("threads").get<int>();
  r.ratio = Number(json, "ratio");
  r.lo = Number(json, "lo");
  r.hi = Number(json, "hi");
  r.pairs = json.at("pairs").get<int>();
  r.processes = json.at("procs").get<int>();
  r.microseconds = Number(json, "us");
  r.state = json.at("state").get<std::string>();
  r.error = json.at("err").get<std::string>();
  r.time = json.at("t").get<int64_t>();
  return r;
}

double Rounded(double value) { return std::round(value * 1e4) / 1e4; }

}  // namespace

std::string TuningRecord::Id() const {
  return Hex(runtime::Hash64(StrCat(problem, "\n", kernel, "\n", plan, "\n", machine, "\n", threads)));
}

std::string TuningRecord::ToLine() const {
  return Seal(Json{{"kind", "plan"},
                   {"id", Id()},
                   {"problem", Json::parse(problem)},
                   {"kernel", kernel},
                   {"rev", revision},
                   {"schema", schema},
                   {"plan", Json::parse(plan)},
                   {"m", machine},
                   {"threads", threads},
                   {"ratio", Rounded(ratio)},
                   {"lo", Rounded(lo)},
                   {"hi", Rounded(hi)},
                   {"pairs", pairs},
                   {"procs", processes},
                   {"us", Rounded(microseconds)},
                   {"state", state},
                   {"err", error},
                   {"t", time}});
}

std::string MakeRecordLine(const std::string& kind, const std::string& fields) {
  Json json{{"kind", kind}};
  json.update(Json::parse(fields));
  return Seal(json);
}

RecordFile ReadRecords(const std::string& text) {
  RecordFile file;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    ++file.lines;
    if (!line.empty() && line.back() == '\r') line.pop_back();  // copied by a program that ends lines as Windows does
    if (line.empty()) continue;
    auto fault = [&](const std::string& why) {
      if (file.faults.size() < kMaxFaults) file.faults.push_back(StrCat("line ", file.lines, ": ", why));
    };
    std::string content;
    if (!Unseal(line, &content)) {
      fault("its checksum is missing or wrong");
      continue;
    }
    const Json json = Json::parse(content, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("kind") || !json["kind"].is_string()) {
      fault("it has no kind");
      continue;
    }
    if (json["kind"] != "plan") {
      file.headers.push_back(line);
      continue;
    }
    try {
      file.records.push_back(FromObject(json));
    } catch (const Error& e) {
      fault(e.what());
    }
  }
  return file;
}

RecordFile ReadRecordFile(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) throw Error(StrCat("can't open ", path, ": no such file"));
  return ReadRecords(runtime::ReadFile(path));
}

std::string MachineId(const TargetFeatures& m) {
  return StrCat(m.arch, "-v", m.vector_bits, "x", m.vector_registers, m.fma ? "-fma" : "", m.vnni ? "-vnni" : "",
                "-l1.", m.l1_bytes >> 10, "k-l2.", m.l2_bytes >> 10, "k-l3.", m.l3_bytes >> 20, "m-c", m.num_cores);
}

std::string WhyNotRecord(const TuningRecord& record) {
  const Kernel* kernel = FindKernel(record.kernel);
  if (kernel == nullptr) return StrCat("there is no kernel ", record.kernel);
  if (kernel->revision != record.revision) {
    return StrCat(record.kernel, " has revision ", kernel->revision, " now, not ", record.revision);
  }
  const std::string schema = kernel->plan_type == nullptr ? "" : SchemaHash(kernel->plan_type);
  return schema == record.schema ? "" : StrCat("plans of ", record.kernel, " have other fields now");
}

std::vector<TuningRecord> BestRecords(const std::vector<TuningRecord>& records, const std::string& machine) {
  std::map<std::string, int64_t> withdrawn;  ///< by id: when last
  for (const TuningRecord& r : records) {
    if (r.state != "withdrawn") continue;
    auto [it, first] = withdrawn.emplace(r.Id(), r.time);
    if (!first) it->second = std::max(it->second, r.time);
  }
  std::map<std::string, const TuningRecord*> best;
  for (const TuningRecord& r : records) {
    if (r.state != "confirmed" || r.machine != machine || !WhyNotRecord(r).empty()) continue;
    auto gone = withdrawn.find(r.Id());
    if (gone != withdrawn.end() && gone->second >= r.time) continue;
    const TuningRecord*& chosen = best[r.problem];
    auto rank = [](const TuningRecord& a) { return std::make_tuple(a.hi, a.ratio, a.Id(), -a.time); };
    if (chosen == nullptr || rank(r) < rank(*chosen)) chosen = &r;
  }
  std::vector<TuningRecord> result;
  for (const auto& [problem, record] : best) result.push_back(*record);
  return result;
}

std::string PlanLines(const std::vector<TuningRecord>& best) {
  std::string text;
  for (const TuningRecord& r : best) {
    text += StrCat("{\"problem\":", r.problem, ",\"kernel\":\"", r.kernel, "\",\"revision\":", r.revision,
                   ",\"plan\":", r.plan, "}\n");
  }
  return text;
}

}  // namespace treadle::schedule
