// SPDX-License-Identifier: Apache-2.0
#include "exeunt/recipes/elbert_config.h"

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/model/config.h"
#include "exeunt/model/elbert.h"

namespace exeunt {
namespace {

// Fields that ELBERT's own code reads in no path of training or evaluation.
constexpr const char* kDead[] = {"kd_enable", "exit_weight_lst", "thres_lst"};

bool is_on(const Json& config, const char* name) {
  const auto found = config.find(name);
  return found != config.end() && !found->is_null() && *found != false && !(found->is_array() && found->empty());
}

}  // namespace

ElbertTraining elbert_training(const Json& config, const std::string& where) {
  ElbertTraining out;
  if (!config.is_object() || (!config.contains("weight_name") && !config.contains("thres_name"))) return out;
  const ModelConfig model = parse_config(config, where);
  JsonObject fields(config, where, /*partial=*/true);
  const std::string weights = fields.string_or("weight_name", "dyn");
  if (weights == "equal") {
    out.set.emplace_back(R"(stages.0.objective={"kind":"sum"})");
  } else if (weights == "dyn") {
    if (fields.has("w_init")) out.set.push_back(fmt::format("stages.0.objective.init={}", fields.number("w_init")));
    if (fields.has("w_lr")) out.set.push_back(fmt::format("stages.0.objective.lr={}", fields.number("w_lr")));
  } else {
    fields.fail("weight_name", "'" + weights + "'", "dyn or equal");
  }
  const int hidden = model.spec.hidden;
  if (const auto& heads = model.heads.elbert) {
    const std::string groups = fmt::format("groups:{}", heads->heads);
    out.set.push_back(fmt::format("heads.classifier={}", heads->heads > 1 ? groups : "shared"));
    out.set.push_back(fmt::format("heads.pooler={}", heads->heads > 1 && !heads->shared_pooler ? groups : "shared"));
    out.set.push_back(fmt::format("heads.pool_input={}", name_of(heads->input)));
    if (heads->inner) out.set.push_back(fmt::format("heads.inner={}", fields.integer("fc_size2", 1, kMaxHidden)));
    if (heads->rule) out.set.push_back(fmt::format("policy={}", elbert_policy(*heads->rule, 0)));
    const int64_t width = fields.integer_or("fc_size1", 1, kMaxHidden, hidden);
    if (!heads->shared_pooler && width != hidden) {
      out.notices.push_back(
          fmt::format("{}: fc_size1 {} is not followed: poolers are as wide as the model, {}", where, width, hidden));
    }
  }
  for (const char* name : kDead) {
    if (is_on(config, name)) out.notices.push_back(fmt::format("{}: {} is not followed, as in ELBERT", where, name));
  }
  return out;
}

ElbertTraining elbert_settings(const std::string& recipe, const std::filesystem::path& folder) {
  const ReadPath path = ReadPath::in(folder, "config.json");
  if (!recipe.starts_with("elbert") || !path_exists(path.path())) return {};
  ElbertTraining out = elbert_training(read_json(path), path.string());
  if (recipe != "elbert")
    std::erase_if(out.set, [](const std::string& field) { return field.starts_with("stages.0.objective"); });
  return out;
}

}  // namespace exeunt
