// SPDX-License-Identifier: Apache-2.0
// What a tuning session tells: text, JSON, a page.
#include <algorithm>
#include <tuple>

#include "treadle/base/html.h"
#include "treadle/base/json.h"
#include "tune/session.h"

namespace treadle::tune {

std::string TuneReport::ToJson() const {
  Json json{{"name", name},
            {"target", target},
            {"machine", machine},
            {"seconds", seconds},
            {"measured", measured},
            {"predicted", predicted},
            {"model", {{"ratio", model.ratio}, {"lo", model.lo}, {"hi", model.hi}, {"accepted", accepted}}}};
  json["graph"] = Json::array();
  for (const GraphReport& g : graph) {
    json["graph"].push_back({{"op", g.op},
                             {"name", g.name},
                             {"from", g.from},
                             {"to", g.to},
                             {"state", g.state},
                             {"error", g.error},
                             {"ratio", g.ratio},
                             {"lo", g.lo},
                             {"hi", g.hi},
                             {"at", g.at}});
  }
  json["tasks"] = Json::array();
  for (const TaskReport& t : tasks) {
    Json trials = Json::array();
    for (const Trial& trial : t.trials) {
      trials.push_back({{"plan", Json::parse(trial.plan)},
                        {"state", trial.state},
                        {"error", trial.error},
                        {"ratio", trial.ratio},
                        {"lo", trial.lo},
                        {"hi", trial.hi},
                        {"at", trial.at}});
    }
    json["tasks"].push_back({{"name", t.name},
                             {"uses", t.uses},
                             {"us", t.seconds * 1e6},
                             {"state", t.state},
                             {"ratio", t.ratio},
                             {"lo", t.lo},
                             {"hi", t.hi},
                             {"plan", Json::parse(t.plan)},
                             {"space", t.space},
                             {"measured", t.measured},
                             {"errors", t.errors},
                             {"error", t.first_error},
                             {"default", Json::parse(t.default_plan)},
                             {"trials", trials}});
  }
  return json.dump(1);
}

std::string TuneReport::ToText() const {
  std::string text;
  for (const GraphReport& g : graph) {
    text += StrCat(g.op, g.name, ": ", g.to, " instead of ", g.from, ": ", g.state);
    if (g.ratio != 1) text += StrCat(", the model ", FixedText(g.ratio, 4));
    text += g.error.empty() ? "\n" : StrCat(", ", g.error.substr(0, 200), "\n");
  }
  for (const TaskReport& t : tasks) {
    text += StrCat(t.name, " x", t.uses, ": ");
    if (t.seconds > 0) text += StrCat(FixedText(t.seconds * 1e6, 1), " us, ", t.measured, " plans measured, ");
    text += StrCat(t.space, " in its space, ", t.state);
    if (t.state == "confirmed" || t.state == "withdrawn") {
      text += StrCat(", ", FixedText(t.ratio, 3), " (", FixedText(t.lo, 3), " to ", FixedText(t.hi, 3), ")");
    }
    if (t.errors > 0) text += StrCat(", ", t.errors, " failed");
    if (!t.first_error.empty()) text += StrCat(", first: ", t.first_error.substr(0, 200));
    text += "\n";
  }
  if (tasks.empty() && graph.empty()) text += "there is nothing to tune: no kernel of this model has several plans\n";
  if (measured > 0) {
    text += accepted ? StrCat("the model takes ", FixedText(model.ratio, 3), " of its time (", FixedText(model.lo, 3),
                              " to ", FixedText(model.hi, 3), ")\n")
                     : "the model keeps its default plans: nothing faster was found for certain\n";
  }
  return text;
}

namespace {

/// "0.953 (0.951 to 0.956)".
std::string WithInterval(double ratio, double lo, double hi) {
  return StrCat(FixedText(ratio, 3), " (", FixedText(lo, 3), " to ", FixedText(hi, 3), ")");
}

/// The fields of a plan that differ from another's: "mr 6 -> 8, kc 0 -> 256".
std::string Difference(const std::string& from, const std::string& to) {
  const Json a = Json::parse(from, nullptr, false), b = Json::parse(to, nullptr, false);
  std::string text;
  if (!b.is_object()) return text;
  for (const auto& [key, value] : b.items()) {
    if (a.is_object() && a.contains(key) && a[key] == value) continue;
    const std::string before = a.is_object() && a.contains(key) ? a[key].dump() + " → " : "";
    text += StrCat(text.empty() ? "" : ", ", key, " ", before, value.dump());
  }
  return text;
}

const char* ClassOf(const std::string& state) {
  return state == "raced" || state == "confirmed" ? "won" : state == "error" ? "failed" : "lost";
}

/// All that was measured of a problem, over the time of the session: ratios to the default plan's time.
std::string Scatter(const std::vector<Trial>& trials, double seconds) {
  constexpr double kWidth = 640, kHeight = 120, kMost = 1.5, kLeast = 0.5, kLeft = 34;
  auto y = [&](double ratio) { return kHeight * (kMost - std::clamp(ratio, kLeast, kMost)) / (kMost - kLeast); };
  std::string svg = StrCat("<svg viewBox=\"0 -6 ", kWidth + 6, " ", kHeight + 12,
                           "\" role=\"img\" aria-label=\"ratios of the plans that were measured\">");
  for (const double line : {0.5, 0.75, 1.0, 1.25, 1.5}) {
    svg += StrCat("<line class=\"", line == 1 ? "one" : "grid", "\" x1=\"", kLeft, "\" x2=\"", kWidth, "\" y1=\"",
                  FixedText(y(line), 1), "\" y2=\"", FixedText(y(line), 1), "\"/><text x=\"0\" y=\"",
                  FixedText(y(line) + 4, 1), "\">", FixedText(line, 2), "</text>");
  }
  for (const Trial& trial : trials) {
    const double x = kLeft + (kWidth - kLeft) * (seconds > 0 ? std::min(1.0, trial.at / seconds) : 0);
    svg += StrCat("<circle class=\"", ClassOf(trial.state), "\" r=\"3.5\" cx=\"", FixedText(x, 1), "\" cy=\"",
                  FixedText(y(trial.state == "error" ? kMost : trial.ratio), 1), "\"><title>",
                  EscapeHtml(StrCat(trial.state, " ", FixedText(trial.ratio, 3), " ", trial.error, " ", trial.plan)),
                  "</title></circle>");
  }
  return svg + "</svg>";
}

constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--ink:#1a1d21;--dim:#5c6570;--line:#d5dae0;--ground:#fff;--card:#f6f8fa;--won:#0a7d4f;--lost:#8a94a0;--failed:#c2410c}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ed;--dim:#9aa4af;--line:#343b44;--ground:#15181c;--card:#1d2126;--won:#3ecf8e;--lost:#6f7a86;--failed:#f97316}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--ground);max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.15rem;margin-top:2.2rem}.dim{color:var(--dim)}
.headline{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:1rem 1.25rem;margin:1.2rem 0;font-size:1.1rem}
.headline b{font-size:1.6rem}table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{text-align:left;padding:.35rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}th{color:var(--dim);font-weight:600}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}.wide{overflow-x:auto}
.won{color:var(--won);fill:var(--won)}.lost{color:var(--lost);fill:var(--lost)}.failed{color:var(--failed);fill:var(--failed)}
circle{fill-opacity:.75}svg{width:100%;height:auto}svg text{font-size:11px;fill:var(--dim)}.grid{stroke:var(--line)}.one{stroke:var(--dim);stroke-dasharray:4 3}
details{border:1px solid var(--line);border-radius:8px;margin:.6rem 0;padding:.5rem .9rem}summary{cursor:pointer;font-weight:600}code{font-size:.85em;overflow-wrap:anywhere}
)";

std::string TaskSection(const TaskReport& t, double seconds) {
  const bool won = t.state == "confirmed";
  std::string html = StrCat("<details", won ? " open" : "", "><summary><span class=\"", won ? "won" : "dim", "\">",
                            t.state, "</span> ", EscapeHtml(t.name), " <span class=\"dim\">× ", t.uses, ", ",
                            FixedText(t.seconds * 1e6, 1), " µs, ", t.measured, " plans</span></summary>");
  if (won || t.state == "withdrawn") {
    html += StrCat("<p>", WithInterval(t.ratio, t.lo, t.hi),
                   " of the default's time: ", EscapeHtml(Difference(t.default_plan, t.plan)), "</p>");
  }
  if (!t.first_error.empty()) html += StrCat("<p class=\"failed\">first error: ", EscapeHtml(t.first_error), "</p>");
  if (t.trials.empty()) return html + "<p class=\"dim\">Nothing was measured.</p></details>";
  html += Scatter(t.trials, seconds);
  html +=
      "<div class=\"wide\"><table><tr><th class=\"n\">ratio</th><th>state</th><th>against the default plan</th></tr>";
  std::vector<const Trial*> best;
  for (const Trial& trial : t.trials) best.push_back(&trial);
  std::sort(best.begin(), best.end(), [](const Trial* a, const Trial* b) {
    return std::make_tuple(a->state == "error", a->ratio, a->at) <
           std::make_tuple(b->state == "error", b->ratio, b->at);
  });
  for (const Trial* trial : best) {
    const std::string ratio = trial->state == "error" ? "" : WithInterval(trial->ratio, trial->lo, trial->hi);
    html += StrCat("<tr><td class=\"n\">", ratio, "</td><td class=\"", ClassOf(trial->state), "\">", trial->state,
                   trial->error.empty() ? "" : ": ", EscapeHtml(trial->error), "</td><td>",
                   EscapeHtml(Difference(t.default_plan, trial->plan)), "</td></tr>");
  }
  return html + "</table></div></details>";
}

std::string GraphSection(const std::vector<GraphReport>& graph) {
  std::string html =
      "<h2>Algorithms and layouts</h2><p class=\"dim\">Each was measured in the whole model, against the best one so "
      "far.</p><div class=\"wide\"><table><tr><th>operator</th><th>instead of</th><th>tried</th><th class=\"n\">the "
      "model's time</th><th>state</th></tr>";
  for (const GraphReport& g : graph) {
    const std::string ratio = g.state == "error" || g.ratio == 1 ? "" : WithInterval(g.ratio, g.lo, g.hi);
    html += StrCat("<tr><td>", EscapeHtml(g.op + g.name), "</td><td>", EscapeHtml(g.from), "</td><td>",
                   EscapeHtml(g.to), "</td><td class=\"n\">", ratio, "</td><td class=\"", ClassOf(g.state), "\">",
                   g.state, g.error.empty() ? "" : ": ", EscapeHtml(g.error), "</td></tr>");
  }
  return html + "</table></div>";
}

}  // namespace

std::string TuneReport::ToHtml() const {
  std::string html = StrCat(
      "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width\"><title>Tuning of ",
      EscapeHtml(name), "</title><style>", kStyle, "</style></head><body><h1>Tuning of ", EscapeHtml(name),
      "</h1><p class=\"dim\">", EscapeHtml(target), "<br>", EscapeHtml(machine), "</p><div class=\"headline\">");
  if (accepted) {
    html += StrCat("<b class=\"won\">", FixedText(model.ratio, 3), "</b> of the default's time, 95 % interval ",
                   FixedText(model.lo, 3), " to ", FixedText(model.hi, 3), ": ",
                   FixedText((1 / model.ratio - 1) * 100, 1), " % more runs in the same time.");
  } else {
    html += "<b>The default plans stay.</b> Nothing was faster for certain in the whole model.";
  }
  html += StrCat("<br><span class=\"dim\">", measured, " candidates in ", FixedText(seconds, 0),
                 " s; expected from the parts: ", FixedText(predicted, 3), "</span></div>");
  if (!graph.empty()) html += GraphSection(graph);
  html +=
      "<h2>Kernels</h2><p class=\"dim\">Points are plans over the time of the session: their time as a part of the "
      "default plan's; <span class=\"won\">faster</span>, <span class=\"lost\">not</span>, <span "
      "class=\"failed\">failed</span>. Those that gained most come first.</p>";
  std::vector<const TaskReport*> order;
  for (const TaskReport& t : tasks) order.push_back(&t);
  std::sort(order.begin(), order.end(), [](const TaskReport* a, const TaskReport* b) {
    auto rank = [](const TaskReport* t) {
      return std::make_tuple(t->state != "confirmed", -t->uses * t->seconds * (1 - t->ratio), -t->uses * t->seconds);
    };
    return rank(a) < rank(b);
  });
  for (const TaskReport* t : order) html += TaskSection(*t, seconds);
  return html + "</body></html>\n";
}

}  // namespace treadle::tune
