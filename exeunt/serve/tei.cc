// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "exeunt/serve/body.h"
#include "exeunt/serve/protocols.h"

namespace exeunt::serve {
namespace {

constexpr std::string_view kWantInputs =
    "a string, a pair of strings [string, string] or a batch of these [[string], [string, string], …]";

std::string text_of(const Json& value) {
  if (!value.is_string())
    throw invalid(fmt::format("body: field 'inputs': got {}, want {}", glimpse(value), kWantInputs));
  std::string text = value.get<std::string>();
  check_text(text, "inputs");
  return text;
}

// One text or a pair, from a list of one or two strings.
JobText listed_text(const Json& list, const JobRules& rules) {
  if (!list.is_array() || list.empty() || list.size() > 2) {
    throw invalid(fmt::format("body: field 'inputs': got {}, want {}",
                              list.is_array() ? fmt::format("a list of {}", list.size()) : glimpse(list), kWantInputs));
  }
  JobText out{.text = text_of(list[0])};
  if (list.size() == 2) {
    refuse_pairs(rules, R"({"inputs": [["first"], ["second"]]})");
    out.pair = text_of(list[1]);
  }
  return out;
}

void take_inputs(const Json& inputs, const JobRules& rules, Job& job) {
  if (inputs.is_string()) {
    job.texts.push_back({.text = text_of(inputs)});
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
  return reading([&] {
    constexpr std::array<std::string_view, 5> known = {"inputs", "truncate", "truncation_direction", "raw_scores",
                                                       "exit"};
    JsonObject fields(body, "body");
    Job job;
    job.unknown_fields = count_unknown(body, known);
    take_inputs(fields.get("inputs"), rules, job);
    take_options(fields, rules, job);
    return job;
  });
}

Job parse_rerank(const Json& body, const JobRules& rules) {
  return reading([&] {
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
    take_options(fields, rules, job);
    job.return_text = fields.boolean_or("return_text", false);
    return job;
  });
}

Job parse_classify(const Json& body, const JobRules& rules) {
  return reading([&] {
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
