// SPDX-License-Identifier: Apache-2.0
#include "exeunt/certify/model_thresholds.h"

#include <utility>

#include "exeunt/base/error.h"
#include "exeunt/certify/thresholds.h"

namespace exeunt {

Checkpoint with_logit_thresholds(const Checkpoint& model, std::vector<float> logit_thresholds) {
  ExitLayout exits = model.exits();
  exits.logit_thresholds = std::move(logit_thresholds);
  Origin origin{.folder = model.folder(),
                .weights_sha256 = model.stored_sha256(),
                .policy = model.native_policy(),
                .notices = model.notices()};
  if (!model.folder().empty()) origin.where = model.folder().string();
  return {model.spec(), std::move(exits), model.tensors(), std::move(origin)};
}

Checkpoint with_thresholds(const Checkpoint& model, std::string_view text) {
  if (text.empty()) return model;
  if (model.exits().problem != Problem::multi_label) {
    throw Error(Code::usage, "--thresholds: the model gives one answer to a text",
                "thresholds are for models that give several labels at once");
  }
  if (text == "fit") {
    throw Error(Code::usage, "--thresholds fit: takes labelled rows, and these are fitted where a policy is chosen",
                "exeunt calibrate MODEL --data FILE --thresholds fit");
  }
  return with_logit_thresholds(model, parse_thresholds(text, model.exits().labels, model.exits().logit_thresholds));
}

}  // namespace exeunt
