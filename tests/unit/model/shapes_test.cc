// SPDX-License-Identifier: Apache-2.0
#include <map>

#include "exeunt/model/config.h"
#include "exeunt/model/cost.h"
#include "exeunt/model/family.h"
#include "tests/fixtures/scratch.h"

namespace exeunt {
namespace {

// Published numbers of parameters, pooler included; ElasticBERT's are BERT's with a pooler more for each other layer.
const std::map<std::string_view, int64_t> kPublishedParameters{
    {"bert-base", 109'482'240},         {"bert-large", 335'141'888},
    {"bert-base-cased", 108'310'272},   {"bert-large-cased", 333'579'264},
    {"roberta-base", 124'645'632},      {"roberta-large", 355'359'744},
    {"albert-base-v1", 11'683'584},     {"albert-large-v1", 17'683'968},
    {"albert-xlarge-v1", 58'724'864},   {"albert-xxlarge-v1", 222'595'584},
    {"albert-base-v2", 11'683'584},     {"albert-large-v2", 17'683'968},
    {"albert-xlarge-v2", 58'724'864},   {"albert-xxlarge-v2", 222'595'584},
    {"albert-base", 11'683'584},        {"elasticbert-base", 109'482'240 + 11 * (768 * 768 + 768)},
    {"minilm-l6", 22'713'216},          {"elasticbert-large", 335'141'888 + 23 * (1024 * 1024 + 1024)},
    {"minilm-l12", 33'360'000},         {"gte-small", 33'360'000},
    {"distilbert-base", 66'362'880},    {"electra-small", 13'483'008},
    {"electra-base", 108'891'648},      {"electra-large", 334'092'288},
    {"camembert-base", 110'621'952},    {"xlm-roberta-base", 278'043'648},
    {"xlm-roberta-large", 559'890'432}, {"modernbert-base", 149'014'272},
    {"modernbert-large", 394'781'696},  {"deberta-v3-xsmall", 70'682'112},
    {"deberta-v3-small", 141'304'320},  {"deberta-v3-base", 183'831'552},
    {"deberta-v3-large", 434'012'160}};

TEST(Shapes, HaveThePublishedNumberOfParameters) {
  EXPECT_EQ(known_shapes().size(), kPublishedParameters.size());
  for (const KnownShape& shape : known_shapes()) {
    ASSERT_TRUE(kPublishedParameters.contains(shape.name)) << shape.name;
    EXPECT_EQ(count_parameters(shape.spec, {}).total(), kPublishedParameters.at(shape.name)) << shape.name;
  }
}

TEST(Shapes, RoundTripThroughConfig) {
  for (const KnownShape& shape : known_shapes()) {
    const std::string written = json_text(exeunt_config(shape.spec));
    EXPECT_EQ(json_text(exeunt_config(parse_config(parse_json(written, "x"), "x").spec)), written) << shape.name;
  }
}

TEST(Shapes, SuggestTheNearestName) {
  EXPECT_EQ(find_shape("roberta-base").spec.position_offset, 2);
  const Error error = error_of([] { (void)find_shape("bert-bsae"); });
  EXPECT_EQ(error.code(), Code::usage);
  EXPECT_EQ(error.hint(), "did you mean 'bert-base'?");
}

}  // namespace
}  // namespace exeunt
