// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/server_metrics.h"

#include <algorithm>
#include <cmath>
#include <ctime>

#include <fmt/format.h>

namespace exeunt::serve {
namespace {

double bound(int i) noexcept {
  return 1.5e-5 * std::pow(1.5, i);
}

// Writes metric families one by one, each with its help and type.
class Page {
 public:
  void family(std::string_view name, std::string_view type, std::string_view help) {
    text_ += fmt::format("# HELP exeunt_{0} {1}\n# TYPE exeunt_{0} {2}\n", name, help, type);
  }
  template <class Value>
  void row(std::string_view name, std::string_view labels, Value value) {
    text_ += labels.empty() ? fmt::format("exeunt_{} {}\n", name, value)
                            : fmt::format("exeunt_{}{{{}}} {}\n", name, labels, value);
  }
  template <class Value>
  void single(std::string_view name, std::string_view type, std::string_view help, Value value) {
    family(name, type, help);
    row(name, {}, value);
  }
  void histogram(std::string_view name, std::string_view help, const Histogram& values) {
    family(name, "histogram", help);
    values.write(text_, fmt::format("exeunt_{}", name));
  }
  std::string& text() { return text_; }

 private:
  std::string text_;
};

void write_requests(Page& page, const Metrics& m) {
  page.family("responses_total", "counter", "Responses by status.");
  for (const auto& [status, count] : m.responses)
    page.row("responses_total", fmt::format("status=\"{}\"", status), count);
  page.family("rejected_total", "counter", "Requests rejected, by reason.");
  for (const auto& [reason, count] : m.rejected) {
    page.row("rejected_total", fmt::format("reason=\"{}\"", label_value(reason)), count);
  }
  page.single("abandoned_total", "counter", "Requests whose client disconnected.", m.abandoned);
  page.single("interruptions_total", "counter", "Out-of-memory failures of the network thread.", m.interruptions);
  page.single("unknown_fields_total", "counter", "Unknown request fields ignored.", m.unknown_fields);
  page.single("connections_total", "counter", "Connections accepted.", m.connections);
  page.single("connections_open", "gauge", "Connections open.", m.connections_open);
  page.single("connections_refused_total", "counter", "Connections refused at the limit.", m.connections_refused);
  page.histogram("request_duration_seconds", "From the last byte of a request to its response.", m.duration);
  page.histogram("tokenization_duration_seconds", "Tokenization of one text.", m.tokenization);
  page.histogram("queue_wait_seconds", "Wait of one text in the queue.", m.queue);
  page.histogram("inference_duration_seconds", "Inference of one text.", m.inference);
}

void write_exits(Page& page, const Metrics& m) {
  page.single("texts_total", "counter", "Texts answered.", m.texts);
  page.single("failed_texts_total", "counter", "Texts on which inference failed.", m.failed_texts);
  page.single("tokens_total", "counter", "Tokens of the texts answered.", m.tokens);
  page.single("truncated_texts_total", "counter", "Texts answered with tokens cut off at the model's limit.",
              m.truncated_texts);
  page.family("exits_total", "counter", "Texts answered, by exit layer.");
  for (const auto& [layer, count] : m.exits) page.row("exits_total", fmt::format("layer=\"{}\"", layer), count);
  page.single("layers_run_total", "counter", "Layers run.", m.layers_run);
  page.single("layers_full_total", "counter", "Layers that full depth would have run.", m.layers_full);
  page.single("speedup_ratio", "gauge", "Layers at full depth over layers run, since the start.",
              m.layers_full == 0
                  ? 1.0
                  : static_cast<double>(m.layers_full) / static_cast<double>(std::max<uint64_t>(m.layers_run, 1)));
}

void write_shadows(Page& page, const Metrics::Shadows& shadows) {
  const auto each = [&](std::string_view name, std::string_view type, std::string_view help, const auto& value) {
    page.family(name, type, help);
    for (const Metrics::WatchedPoint& point : shadows.points)
      page.row(name, fmt::format("policy=\"{}\"", label_value(point.policy)), value(point));
  };
  using Point = Metrics::WatchedPoint;
  each("shadow_texts_total", "counter", "Texts compared with the reference.",
       [](const Point& p) { return p.watch.texts(); });
  each("shadow_disagreements_total", "counter", "Texts whose answer differs from the reference.",
       [](const Point& p) { return p.watch.disagreements(); });
  each("shadow_losses_total", "counter", "Sum of their losses.", [](const Point& p) { return p.watch.losses(); });
  each("shadow_dropped_total", "counter", "Texts drawn and dropped, because too many were waiting.",
       [](const Point& p) { return p.watch.dropped(); });
  each("risk_upper_bound", "gauge", "The mean loss lies below this with confidence 95 %; NaN while not covered.",
       [](const Point& p) {
         const auto bound = p.watch.upper_bound();
         return bound ? fmt::format("{}", *bound) : "NaN";
       });
  each("risk_covered", "gauge", "0 while texts that were drawn are dropped.",
       [](const Point& p) { return p.watch.upper_bound() ? 1 : 0; });
  each("promise_alarm", "gauge", "1 since the mean loss was found to exceed the certified one.",
       [](const Point& p) { return p.watch.alarm() ? 1 : 0; });
  each("first_exit_shift", "gauge", "1 since the first exit was found to answer another share than calibrated.",
       [](const Point& p) { return p.first_exit && p.first_exit->shifted() ? 1 : 0; });
  page.single("shadow_pending", "gauge", "Texts drawn and not yet compared.", shadows.pending);
  page.single("shadow_memory_bytes", "gauge", "Weights loaded for shadow runs.", shadows.bytes);
  page.single("shadow_processor_seconds_total", "counter", "Processor time of shadow runs.", shadows.processor_seconds);
}

void write_now(Page& page, const Metrics::Now& now) {
  page.single("queue_texts", "gauge", "Texts admitted and not yet answered.", now.queue_texts);
  page.single("queue_bytes", "gauge", "Bytes of requests admitted and not yet answered.", now.queue_bytes);
  page.family("threshold_effective", "gauge", "First parameter of the current default policy.");
  page.row("threshold_effective", fmt::format("policy=\"{}\"", label_value(now.policy)), now.threshold);
  page.single("certified_loss", "gauge", "Certified loss of the current default policy; 0 without a certificate.",
              now.max_drop);
  page.family("calibrated_exit_share", "gauge",
              "Share of certification texts that this policy answered, by exit layer.");
  for (const auto& [layer, share] : now.calibrated_exits)
    page.row("calibrated_exit_share", fmt::format("layer=\"{}\"", layer), share);
  page.single("load_level", "gauge", "Steps along the certified points under load.", now.level);
  write_shadows(page, now.shadows);
  page.single("processor_seconds_total", "counter", "Processor time of the server.", now.processor_seconds);
  page.single("ready", "gauge", "1 while requests are accepted.", now.ready ? 1 : 0);
  page.single("uptime_seconds", "gauge", "Seconds since the server started.", now.uptime_seconds);
  page.single("resident_memory_bytes", "gauge", "Resident memory.", now.resident_bytes);
}

// The failure name of text-embeddings-inference for this status.
std::string_view tei_failure(int status) noexcept {
  if (status == 429 || status == 504) return "overloaded";
  return status == 424 ? "inference" : status == 503 ? "unhealthy" : "validation";
}

// The metric names of text-embeddings-inference, for its dashboards. A batch is always one text here.
void write_tei(std::string& out, const Metrics& m, const Metrics::Now& now) {
  uint64_t all = 0, good = 0;
  std::map<std::string_view, uint64_t> failures;
  for (const auto& [status, count] : m.responses) {
    all += count;
    if (status < 400) {
      good += count;
    } else {
      failures[tei_failure(status)] += count;
    }
  }
  const auto counter = [&](std::string_view name, uint64_t value) {
    out += fmt::format("# TYPE {0} counter\n{0} {1}\n", name, value);
  };
  counter("te_request_count", all);
  counter("te_request_success", good);
  out += "# TYPE te_request_failure counter\n";
  for (const auto& [err, count] : failures) out += fmt::format("te_request_failure{{err=\"{}\"}} {}\n", err, count);
  const auto batches = [&](std::string_view name, uint64_t sum) {
    out += fmt::format("# TYPE {0} histogram\n{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2}\n{0}_count {1}\n", name,
                       m.texts, sum);
  };
  batches("te_batch_next_size", m.texts);
  batches("te_batch_next_tokens", m.tokens);
  out += fmt::format("# TYPE te_queue_size gauge\nte_queue_size {}\n", now.queue_texts);
  const auto histogram = [&](std::string_view name, const Histogram& values) {
    out += fmt::format("# TYPE {} histogram\n", name);
    values.write(out, name);
  };
  histogram("te_request_duration", m.duration);
  histogram("te_request_tokenization_duration", m.tokenization);
  histogram("te_request_queue_duration", m.queue);
  histogram("te_request_inference_duration", m.inference);
}

}  // namespace

ShareWatch::ShareWatch(double share, int64_t rows) : share_(share) {
  constexpr double kLevel = PromiseWatch::kFalseAlarm / 4;  // of two bounds and two tests
  const auto above = [&](double calibrated) -> std::optional<RiskAlarm> {
    const auto count = std::llround(calibrated * static_cast<double>(rows));
    const double most = binomial_upper_bound(count, rows, kLevel) + kTolerance;
    return most < 1 ? std::optional(RiskAlarm(most, kLevel)) : std::nullopt;
  };
  more_ = above(share);
  fewer_ = above(1 - share);
}

void ShareWatch::record(bool first_exit) {
  if (more_) more_->record(first_exit ? 1 : 0);
  if (fewer_) fewer_->record(first_exit ? 0 : 1);
  ++texts_;
  first_ += first_exit ? 1 : 0;
}

void Histogram::add(double seconds) noexcept {
  int place = 0;
  while (place < kBounds && seconds > bound(place)) ++place;
  ++counts_[static_cast<size_t>(place)];
  ++count_;
  sum_ += seconds;
}

void Histogram::write(std::string& out, std::string_view name) const {
  uint64_t below = 0;
  for (int i = 0; i < kBounds; ++i) {
    below += counts_[static_cast<size_t>(i)];
    out += fmt::format("{}_bucket{{le=\"{:.6g}\"}} {}\n", name, bound(i), below);
  }
  out += fmt::format("{0}_bucket{{le=\"+Inf\"}} {1}\n{0}_sum {2:.9g}\n{0}_count {1}\n", name, count_, sum_);
}

std::string Metrics::text(const Now& now, bool tei_names) const {
  Page page;
  write_requests(page, *this);
  write_exits(page, *this);
  write_now(page, now);
  if (tei_names) write_tei(page.text(), *this, now);
  return std::move(page.text());
}

double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

std::string label_value(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace exeunt::serve
