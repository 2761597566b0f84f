// SPDX-License-Identifier: Apache-2.0
#include "exeunt/policy/promise.h"

#include <algorithm>

#include <fmt/format.h>

#include "exeunt/base/fields.h"

namespace exeunt {

namespace {

std::string map_text(std::string_view sha256) {
  return sha256.empty() ? "no precision.json" : fmt::format("precision.json {:.12}", sha256);
}

}  // namespace

std::string promise_of(const Certificate& certificate, std::string_view precision) {
  const std::string model =
      fmt::format("the {} model at full depth",
                  certificate.reference == LossReference::fp32 ? std::string_view("fp32") : precision);
  const double share = 100 * certificate.max_drop;
  const bool requests = certificate.unit == CertifiedUnit::requests;
  const RiskLoss& loss = certificate.loss;
  std::string text =
      fmt::format(fmt::runtime(info_of(loss).promise), fmt::arg("share", share), fmt::arg("model", model),
                  fmt::arg("answers", requests ? "answers to requests" : "answers to distinct texts"),
                  fmt::arg("texts", requests ? "requests" : "distinct texts"), fmt::arg("what", what_of(loss)),
                  fmt::arg("units", unit_of(certificate.cluster_by)));
  if (loss.max_false) text += fmt::format(", and at most {:g} % of the others are", 100 * *loss.max_false);
  if (certificate.group_by == "exit") text += fmt::format(", at no exit more than {:g} %", kExitShare * share);
  if (certificate.clusters > 0)
    text += fmt::format(", by a test of {} {}", certificate.clusters, unit_of(certificate.cluster_by));
  if (!certificate.groups.empty()) text += fmt::format(", also in each of {} groups", certificate.groups.size());
  return certificate.method == RiskMethod::crc
             ? text + ", in expectation"
             : fmt::format("{}, confidence {:g} %", text, 100 * (1 - certificate.delta));
}

std::string unit_of(std::string_view cluster_by) {
  return cluster_by.empty() ? "questions" : fmt::format("clusters ('{}')", cluster_by);
}

std::string promise_of(const PolicyEntry& entry) {
  return entry.certificate ? promise_of(*entry.certificate, entry.precision) : no_promise("not certified");
}

std::string no_promise(std::string_view why) {
  return fmt::format("none ({})", why);
}

std::string broken_condition(const PolicyEntry& entry, const RunConditions& run) {
  if (!entry.certificate) return {};
  const Certificate& certificate = *entry.certificate;
  if (entry.device != device_of(run.engine) || (!entry.engine.empty() && entry.engine != run.engine))
    return fmt::format("certified on {}, not on {}; 'exeunt calibrate --transfer' certifies it here",
                       entry.engine.empty() ? entry.device : entry.engine, run.engine);
  if (entry.numerics > 0 && run.numerics > 0 && entry.numerics != run.numerics)
    return fmt::format("certified with version {} of the arithmetic of {}, running with {}", entry.numerics, run.engine,
                       run.numerics);
  if (run.precision_map && entry.precision_map.value_or("") != *run.precision_map)
    return fmt::format("certified with {}, running with {}", map_text(entry.precision_map.value_or("")),
                       map_text(*run.precision_map));
  if (certificate.max_length > 0 && run.max_length > 0 && certificate.max_length != run.max_length)
    return fmt::format("certified with max-length {}, running with {}", certificate.max_length, run.max_length);
  if (!certificate.tokenizer.empty() && !run.tokenizer.empty() && certificate.tokenizer != run.tokenizer)
    return fmt::format("certified with tokenizer {:.12}, running with {:.12}", certificate.tokenizer, run.tokenizer);
  if (certificate.last_head && *certificate.last_head != run.last_head)
    return fmt::format("certified with the last layer's {} head, running with its {} head",
                       word_of(*certificate.last_head), word_of(run.last_head));
  return {};
}

std::optional<Certificate> certificate_for(const PolicyEntry& entry, const PolicySpec& policy) {
  if (!entry.certificate) return std::nullopt;
  const PolicySpec wanted = entry.complete(policy);
  if (wanted == entry.complete()) return entry.certificate;
  const auto point = std::find_if(entry.points.begin(), entry.points.end(),
                                  [&](const PolicyPoint& one) { return wanted == entry.complete(one.policy); });
  if (point == entry.points.end()) return std::nullopt;
  Certificate certificate = *entry.certificate;
  certificate.max_drop = point->max_drop;
  return certificate;
}

}  // namespace exeunt
