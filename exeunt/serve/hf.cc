// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "exeunt/serve/body.h"
#include "exeunt/serve/protocols.h"

namespace exeunt::serve {
namespace {

constexpr std::string_view kWantTexts = R"(a string, {"text": string, "text_pair": string}, or a list of these)";

[[noreturn]] void refuse_inputs(std::string got) {
  throw invalid(fmt::format("body: field 'inputs': got {}, want {}", got, kWantTexts));
}

std::string input_text(const Json& value) {
  if (!value.is_string()) refuse_inputs(glimpse(value));
  std::string text = value.get<std::string>();
  check_text(text, "inputs");
  return text;
}

// A string, an object as transformers' pipelines take it, or, as on /predict, a list of one or two strings.
JobText one_input(const Json& value, const JobRules& rules) {
  JobText out;
  if (value.is_object()) {
    JsonObject fields(value, "inputs");
    out.text = input_text(fields.get("text"));
    if (const Json* pair = fields.find("text_pair"); pair != nullptr && !pair->is_null()) out.pair = input_text(*pair);
  } else if (value.is_array()) {
    if (value.empty() || value.size() > 2) refuse_inputs(fmt::format("a list of {} in a list", value.size()));
    out.text = input_text(value[0]);
    if (value.size() == 2) out.pair = input_text(value[1]);
  } else {
    out.text = input_text(value);
  }
  if (out.pair) refuse_pairs(rules, R"({"inputs": ["first", "second"]})");
  return out;
}

Scoring scoring_named(const Json& name) {
  if (name == "none") return Scoring::logits;
  if (name == "sigmoid") return Scoring::sigmoid;
  if (name == "softmax") return Scoring::softmax;
  throw invalid(fmt::format(R"(parameters: field 'function_to_apply': got {}, want "sigmoid", "softmax" or "none")",
                            glimpse(name)));
}

void take_parameters(const Json& value, Job& job) {
  if (value.is_null()) return;
  constexpr std::array<std::string_view, 2> known = {"top_k", "function_to_apply"};
  JsonObject fields(value, "parameters");
  job.unknown_fields += count_unknown(value, known);
  if (const Json* top = fields.find("top_k"); top != nullptr && !top->is_null()) {
    if (!top->is_number_integer() || *top < 1) fields.fail("top_k", glimpse(*top), "a number from 1");
    job.top = top->get<size_t>();
  }
  if (const Json* name = fields.find("function_to_apply"); name != nullptr && !name->is_null())
    job.scoring = scoring_named(*name);
}

}  // namespace

Job parse_text_classification(const Json& body, const JobRules& rules) {
  return reading([&] {
    constexpr std::array<std::string_view, 7> known = {"inputs",     "parameters",           "options", "truncate",
                                                       "raw_scores", "truncation_direction", "exit"};
    JsonObject fields(body, "body");
    Job job;
    job.shape = Shape::predict_batch;  // a list for each text, also for one
    job.unknown_fields = count_unknown(body, known);
    const Json& inputs = fields.get("inputs");
    if (inputs.is_array()) {
      check_batch(inputs.size(), rules);
      for (const Json& input : inputs) job.texts.push_back(one_input(input, rules));
    } else {
      job.texts.push_back(one_input(inputs, rules));
    }
    take_options(fields, rules, job);
    if (const Json* parameters = fields.find("parameters")) take_parameters(*parameters, job);
    return job;
  });
}

}  // namespace exeunt::serve
