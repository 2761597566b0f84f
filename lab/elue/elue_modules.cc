// SPDX-License-Identifier: Apache-2.0
#include "lab/elue/elue_modules.h"

#include <string>

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/base/json.h"
#include "lab/built_in.h"

namespace exeunt {

std::string elue_module_file(const ModelSpec& spec, const ExitLayout& exits) {
  if (exits.readers() > 0) throw Error(Code::usage, "ELUE's module file: the model's exits have readers");
  OrderedJson model;
  model["vocabulary"] = spec.vocab;
  model["positions"] = spec.positions;
  model["position_offset"] = spec.position_offset;
  model["segments"] = spec.segments;
  model["embedding"] = spec.embedding;
  model["embedding_projection"] = spec.embedding_projection ? 1 : 0;  // Python does not know JSON's "true"
  model["hidden"] = spec.hidden;
  model["heads"] = spec.heads;
  model["inner"] = spec.inner;
  model["pooled"] = exits.width;
  model["outputs"] = exits.outputs;
  model["layers"] = OrderedJson::array();
  for (int layer = 0; layer < spec.layers; ++layer) model["layers"].push_back(spec.weights_of(layer));
  std::string sites;
  for (const ExitSite& site : exits.sites) {
    sites += fmt::format("    ({}, {}, {}),\n", site.after, site.pooler ? std::to_string(*site.pooler) : "None",
                         site.classifier);
  }
  return fmt::format(
      "MODEL = {}\nMODEL[\"classifier_inner\"] = {}\nMODEL[\"exits\"] = [  # layer, pooler, classifier\n{}]\n{}",
      model.dump(), exits.inner ? std::to_string(*exits.inner) : "None", sites, elue_file("elue_modules.py"));
}

}  // namespace exeunt
