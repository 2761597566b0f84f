// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "exeunt/serve/body.h"
#include "exeunt/serve/protocols.h"

namespace exeunt::serve {

Job parse_classify(const Json& body, const JobRules& rules) {
  return reading([&] {
    constexpr std::array<std::string_view, 4> known = {"model", "input", "exit", "user"};
    JsonObject fields(body, "body");
    Job job;
    job.shape = Shape::classify;
    job.truncate = rules.auto_truncate;
    job.unknown_fields = count_unknown(body, known);
    if (fields.has("model") && fields.string("model") != rules.model.name) {
      throw Refusal(404, ErrorType::validation, "no model of that name is served here",
                    fmt::format("the model is '{}'", rules.model.name));
    }
    const Json& input = fields.get("input");
    std::vector<std::string> texts =
        input.is_string() ? std::vector{input.get<std::string>()} : fields.strings("input");
    check_batch(texts.size(), rules);
    add_texts(std::move(texts), "input", nullptr, job);
    if (const Json* exit = fields.find("exit")) job.exit = parse_exit(*exit);
    return job;
  });
}

}  // namespace exeunt::serve
