// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "exeunt/serve/protocols.h"

namespace exeunt::serve {
namespace {

constexpr std::string_view kWantInputs =
    "a string, a pair of strings [string, string] or a batch of these [[string], [string, string], …]";

constexpr std::string_view kWantTexts = R"(a string, {"text": string, "text_pair": string}, or a list of these)";

[[noreturn]] void refuse_inputs(std::string_view got, std::string_view want) {
  throw invalid(fmt::format("body: field 'inputs': got {}, want {}", got, want));
}

std::string input_text(const Json& value, std::string_view want = kWantInputs) {
  if (!value.is_string()) refuse_inputs(glimpse(value), want);
  std::string text = value.get<std::string>();
  check_text(text, "inputs");
  return text;
}

// One text or a pair, from a list of one or two strings.
JobText listed_text(const Json& list, const JobRules& rules) {
  if (!list.is_array() || list.empty() || list.size() > 2) {
    refuse_inputs(list.is_array() ? fmt::format("a list of {}", list.size()) : glimpse(list), kWantInputs);
  }
  JobText out{.text = input_text(list[0])};
  if (list.size() == 2) {
    refuse_pairs(rules, R"({"inputs": [["first"], ["second"]]})");
    out.pair = input_text(list[1]);
  }
  return out;
}

void read_inputs(const Json& inputs, const JobRules& rules, Job& job) {
  if (inputs.is_string()) {
    job.texts.push_back({.text = input_text(inputs)});
  } else if (inputs.is_array() && !inputs.empty() && inputs[0].is_array()) {
    job.shape = Shape::predict_batch;
    check_batch(inputs.size(), rules);
    for (const Json& item : inputs) job.texts.push_back(listed_text(item, rules));
  } else if (inputs.is_array() && inputs.empty()) {
    check_batch(0, rules);
  } else {
    job.texts.push_back(listed_text(inputs, rules));
  }
}

// A string, an object as transformers' pipelines take it, or, as on /predict, a list of one or two strings.
JobText one_input(const Json& value, const JobRules& rules) {
  JobText out;
  if (value.is_object()) {
    JsonObject fields(value, "inputs");
    out.text = input_text(fields.get("text"), kWantTexts);
    if (const Json* pair = fields.find("text_pair"); pair != nullptr && !pair->is_null())
      out.pair = input_text(*pair, kWantTexts);
  } else if (value.is_array()) {
    if (value.empty() || value.size() > 2)
      refuse_inputs(fmt::format("a list of {} in a list", value.size()), kWantTexts);
    out.text = input_text(value[0], kWantTexts);
    if (value.size() == 2) out.pair = input_text(value[1], kWantTexts);
  } else {
    out.text = input_text(value, kWantTexts);
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

void read_parameters(const Json& value, Job& job) {
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

// The query is tokenized once for every text.
void check_pairs(const Job& job) {
  constexpr size_t kMaxQueries = size_t{4} << 20;
  if (job.query->size() * job.texts.size() <= kMaxQueries) return;
  throw Refusal(413, ErrorType::validation,
                fmt::format("a query of {} bytes for {} texts: their product is more than {} bytes", job.query->size(),
                            job.texts.size(), kMaxQueries),
                "shorten the query, or send fewer texts at once");
}

}  // namespace

Job parse_predict(const Json& body, const JobRules& rules) {
  return refuse_errors([&] {
    constexpr std::array<std::string_view, 5> known = {"inputs", "truncate", "truncation_direction", "raw_scores",
                                                       "exit"};
    JsonObject fields(body, "body");
    Job job;
    job.unknown_fields = count_unknown(body, known);
    read_inputs(fields.get("inputs"), rules, job);
    read_options(fields, rules, job);
    return job;
  });
}

Job parse_text_classification(const Json& body, const JobRules& rules) {
  return refuse_errors([&] {
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
    read_options(fields, rules, job);
    if (const Json* parameters = fields.find("parameters")) read_parameters(*parameters, job);
    return job;
  });
}

Job parse_rerank(const Json& body, const JobRules& rules) {
  return refuse_errors([&] {
    if (rules.model.outputs != 1) {
      throw Refusal(424, ErrorType::backend,
                    fmt::format("model is not a re-ranker: it has {} outputs, want 1", rules.model.outputs),
                    "use /predict");
    }
    constexpr std::array<std::string_view, 7> known = {"query",      "texts",       "truncate", "truncation_direction",
                                                       "raw_scores", "return_text", "exit"};
    JsonObject fields(body, "body");
    Job job;
    job.shape = Shape::rerank;
    job.unknown_fields = count_unknown(body, known);
    job.query = fields.string("query");
    check_text(*job.query, "query");
    std::vector<std::string> texts = fields.strings("texts");
    check_batch(texts.size(), rules);
    add_texts(std::move(texts), "texts", job);
    check_pairs(job);
    read_options(fields, rules, job);
    job.return_text = fields.boolean_or("return_text", false);
    return job;
  });
}

Job parse_classify(const Json& body, const JobRules& rules) {
  return refuse_errors([&] {
    constexpr std::array<std::string_view, 4> known = {"model", "input", "exit", "user"};
    JsonObject fields(body, "body");
    Job job;
    job.shape = Shape::classify;
    job.truncate = rules.auto_truncate;
    job.unknown_fields = count_unknown(body, known);
    if (fields.has("model") && fields.string("model") != rules.model.name) {
      throw Refusal(404, ErrorType::validation, "unknown model", fmt::format("the model is '{}'", rules.model.name));
    }
    const Json& input = fields.get("input");
    std::vector<std::string> texts =
        input.is_string() ? std::vector{input.get<std::string>()} : fields.strings("input");
    check_batch(texts.size(), rules);
    add_texts(std::move(texts), "input", job);
    if (const Json* exit = fields.find("exit")) job.exit = parse_exit(*exit);
    return job;
  });
}

}  // namespace exeunt::serve
