// SPDX-License-Identifier: Apache-2.0
// Bytes as the tensors of an exit before the first layer, in safetensors with its shape as metadata, in a small model;
// what is accepted can be asked about any text.
#include "exeunt/base/json.h"
#include "exeunt/base/safetensors.h"
#include "exeunt/engine/ngram_exit.h"
#include "exeunt/model/exits_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/engine/random_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace exeunt;
  static const Checkpoint base = make_model(small_spec(), own_exits(small_spec()));
  return read_or_refuse([&] {
    TensorSet tensors = parse_safetensors(bytes_of(data, size), "input");
    ExitLayout sites = base.exits();
    sites.sites.insert(sites.sites.begin(), ExitSite{.after = 0, .classifier = kNoClassifier});
    OrderedJson exits = exits_json(sites);
    exits["ngrams"] = parse_ordered_json(tensors.metadata["ngrams"], "input");
    const ExitLayout layout = parse_exits(Json(exits), base.spec(), "input");
    for (const auto& [name, view] : base.tensors().tensors) tensors.tensors[name] = view;
    const NgramExit exit(Checkpoint(base.spec(), layout, std::move(tensors)));
    std::vector<int32_t> ids;
    std::vector<float> logits(static_cast<size_t>(layout.outputs));
    for (int32_t id = 0; id < base.spec().vocab; ++id) {
      ids.push_back(id);
      ids.push_back(static_cast<int32_t>(size % static_cast<size_t>(base.spec().vocab)));
      exit.run(ids, logits.data());
    }
  });
}
