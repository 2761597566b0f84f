// SPDX-License-Identifier: Apache-2.0
// The bytes of a connection: cut into requests, whose bodies every protocol reads. The first byte says how the rest is
// cut into reads, which must change nothing.
#include "exeunt/serve/access_log.h"
#include "exeunt/serve/framing.h"
#include "exeunt/serve/protocols.h"
#include "tests/fuzz/fuzz.h"

namespace exeunt::serve {
namespace {

struct Outcome {
  std::vector<std::string> bodies;
  bool refused = false;
  bool operator==(const Outcome&) const = default;
};

Outcome cut(std::string_view bytes, size_t step) {
  Outcome out;
  RequestReader reader({.body_bytes = 4096, .chunks = 64});
  try {
    while (!bytes.empty()) {
      std::string_view piece = bytes.substr(0, step);
      bytes.remove_prefix(piece.size());
      while (!piece.empty()) {
        piece.remove_prefix(reader.feed(piece));
        if (reader.stage() == RequestReader::Stage::complete) out.bodies.push_back(reader.take().body);
      }
    }
  } catch (const Refusal&) {
    out.refused = true;
  }
  return out;
}

void read_body(std::string_view body) {
  ModelFacts model{{.labels = {"a", "b"}}, "m", 2, 2, {1, 2}};
  model.vocabulary = 50;
  const ModelFacts ranker{{.problem = Problem::regression}, "m", 1, 2, {1, 2}};
  read_or_refuse([&] {
    const Json json = parse_body(body);
    for (const auto parse : {parse_predict, parse_text_classification, parse_classify, parse_infer}) {
      read_or_refuse([&] { check(parse(json, {.model = model}).texts.size() <= 32, "a batch is bounded"); });
    }
    read_or_refuse([&] { (void)parse_rerank(json, {.model = ranker}); });
  });
}

}  // namespace
}  // namespace exeunt::serve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace exeunt::serve;
  if (size < 1) return 0;
  const std::string_view bytes = exeunt::text_of(data + 1, size - 1);
  const Outcome whole = cut(bytes, bytes.size() + 1);
  // A lone CR before a request is an empty line in one piece and a bad head in two; nothing else may depend on the cut.
  if (bytes.find("\r\n\r\n\r\n") == std::string_view::npos && !bytes.starts_with("\r\n")) {
    const Outcome pieces = cut(bytes, 1 + data[0] % 64);
    exeunt::check(pieces.bodies.size() == whole.bodies.size(), "reads may be cut anywhere");
  }
  for (const std::string& body : whole.bodies) read_body(body);
  read_body(bytes);
  (void)parse_traceparent(bytes);
  return 0;
}
