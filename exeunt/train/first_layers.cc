// SPDX-License-Identifier: Apache-2.0
#include "exeunt/train/first_layers.h"

#include <fmt/format.h>

#include "exeunt/base/error.h"
#include "exeunt/model/schema.h"

namespace exeunt {

Checkpoint first_layers(const Checkpoint& base, int layers) {
  if (layers < 1 || layers > base.spec().layers) {
    throw Error(Code::usage,
                fmt::format("--layers: got {}, want 1 to {}, the layers of the model", layers, base.spec().layers));
  }
  ModelSpec spec = base.spec();
  // Groups of shared layers are spread over the depth, so a cut would change which layer uses which.
  if (spec.groups > 1 && layers != spec.layers) {
    throw Error(Code::usage,
                fmt::format("--layers: the model shares its layers in {} groups and cannot be cut", spec.groups));
  }
  spec.layers = layers;
  TensorSet set;
  set.owners = base.tensors().owners;
  for (const TensorInfo& info : schema(spec, ExitLayout{})) {
    if (const TensorView* view = base.find(info.name)) set.tensors[info.name] = *view;
  }
  return {spec, ExitLayout{}, std::move(set), {.folder = base.folder(), .where = base.folder().string()}};
}

}  // namespace exeunt
