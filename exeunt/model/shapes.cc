// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/shapes.h"

#include "exeunt/base/error.h"
#include "exeunt/base/suggest.h"
#include "exeunt/model/family.h"

namespace exeunt {
namespace {

struct Size {
  int layers, hidden, heads, inner;
};

ModelSpec sized(Family family, Size size, int vocab) {
  ModelSpec spec = row_of(family).spec;
  spec.layers = size.layers;
  spec.hidden = size.hidden;
  spec.heads = size.heads;
  spec.inner = size.inner;
  spec.vocab = vocab;
  if (!spec.embedding_projection) spec.embedding = spec.hidden;
  return spec;
}

ModelSpec bert(Size size, int vocab) {
  return sized(Family::bert, size, vocab);
}

ModelSpec roberta(Size size) {
  ModelSpec spec = sized(Family::roberta, size, 50265);
  spec.positions = 514;
  spec.segments = 1;
  spec.norm_eps = 1e-5F;
  return spec;
}

// Version 1 has GELU by the error function, version 2 by tanh; the shapes are the same.
ModelSpec albert(Size size, Activation activation) {
  ModelSpec spec = sized(Family::albert, size, 30000);
  spec.activation = activation;
  return spec;
}

ModelSpec multilingual(Family family, Size size, int vocab) {
  ModelSpec spec = sized(family, size, vocab);
  spec.positions = 514;
  spec.segments = 1;
  spec.norm_eps = 1e-5F;
  return spec;
}

ModelSpec electra(Size size, int embedding) {
  ModelSpec spec = sized(Family::electra, size, 30522);
  spec.embedding = embedding;
  spec.embedding_projection = embedding != size.hidden;
  return spec;
}

ModelSpec deberta(Size size) {
  return sized(Family::deberta_v2, size, 128100);
}

std::vector<KnownShape> make_shapes() {
  constexpr Size kBase{12, 768, 12, 3072}, kLarge{24, 1024, 16, 4096}, kXlarge{24, 2048, 16, 8192},
      kXxlarge{12, 4096, 64, 16384};
  constexpr auto kV1 = Activation::gelu, kV2 = Activation::gelu_new;
  return {{"bert-base", bert(kBase, 30522)},
          {"bert-large", bert(kLarge, 30522)},
          {"bert-base-cased", bert(kBase, 28996)},
          {"bert-large-cased", bert(kLarge, 28996)},
          {"roberta-base", roberta(kBase)},
          {"roberta-large", roberta(kLarge)},
          {"albert-base-v1", albert(kBase, kV1)},
          {"albert-large-v1", albert(kLarge, kV1)},
          {"albert-xlarge-v1", albert(kXlarge, kV1)},
          {"albert-xxlarge-v1", albert(kXxlarge, kV1)},
          {"albert-base-v2", albert(kBase, kV2)},
          {"albert-large-v2", albert(kLarge, kV2)},
          {"albert-xlarge-v2", albert(kXlarge, kV2)},
          {"albert-xxlarge-v2", albert(kXxlarge, kV2)},
          {"albert-base", albert(kBase, kV2)},
          {"elasticbert-base", sized(Family::elasticbert, kBase, 30522)},
          {"elasticbert-large", sized(Family::elasticbert, kLarge, 30522)},
          {"distilbert-base", sized(Family::distilbert, {6, 768, 12, 3072}, 30522)},
          {"electra-small", electra({12, 256, 4, 1024}, 128)},
          {"electra-base", electra(kBase, 768)},
          {"electra-large", electra(kLarge, 1024)},
          {"xlm-roberta-base", multilingual(Family::xlm_roberta, kBase, 250002)},
          {"xlm-roberta-large", multilingual(Family::xlm_roberta, kLarge, 250002)},
          {"camembert-base", multilingual(Family::camembert, kBase, 32005)},
          {"modernbert-base", row_of(Family::modernbert).spec},
          {"modernbert-large", sized(Family::modernbert, {28, 1024, 16, 2624}, 50368)},
          {"deberta-v3-xsmall", deberta({12, 384, 6, 1536})},
          {"deberta-v3-small", deberta({6, 768, 12, 3072})},
          {"deberta-v3-base", deberta(kBase)},
          {"deberta-v3-large", deberta(kLarge)},
          {"minilm-l6", bert({6, 384, 12, 1536}, 30522)},
          {"minilm-l12", bert({12, 384, 12, 1536}, 30522)},
          {"gte-small", bert({12, 384, 12, 1536}, 30522)}};
}

}  // namespace

const std::vector<KnownShape>& known_shapes() {
  static const std::vector<KnownShape> shapes = make_shapes();
  return shapes;
}

const KnownShape& find_shape(std::string_view name) {
  std::vector<std::string> names;
  for (const KnownShape& shape : known_shapes()) {
    if (shape.name == name) return shape;
    names.emplace_back(shape.name);
  }
  throw Error(Code::usage, fmt::format("unknown shape '{}'", name), suggestion(name, names));
}

}  // namespace exeunt
