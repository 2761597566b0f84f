// SPDX-License-Identifier: Apache-2.0
#include "exeunt/data/features.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "exeunt/base/error.h"
#include "exeunt/base/json.h"
#include "exeunt/base/number.h"
#include "exeunt/base/parallel.h"
#include "exeunt/base/suggest.h"

namespace exeunt {
namespace {

// Enough rows per piece that the cost of taking the next one is negligible.
constexpr size_t kPiece = 64;
constexpr int kNoLimit = 1 << 30;  // tokens

FeatureInfo describe(const Dataset& data, const FeatureOptions& options) {
  return {.tokenizer = options.tokenizer,
          .data = data.sha256,
          .task = data.task,
          .split = data.split,
          .labels = data.labels,
          .max_length = options.max_length};
}

constexpr std::string_view kFeatureFormat = "exeunt.features/1";
constexpr int kLongestRow = 1 << 20;
const auto kTensors = {"ids", "types", "offsets", "gold", "index", "sets"};  // the last where rows have several labels

FeatureInfo read_info(const TensorSet& set, const std::string& where) {
  Json fields = Json::object();
  for (const auto& [name, value] : set.metadata) fields[name] = value;
  JsonObject object(fields, where + ": __metadata__");
  if (const std::string format = object.string("format"); format != kFeatureFormat) {
    object.fail("format", fmt::format("'{}'", format.substr(0, 64)), fmt::format("'{}'", kFeatureFormat));
  }
  FeatureInfo info;
  info.tokenizer = object.string("tokenizer");
  info.data = object.string("data");
  info.task = object.string("task");
  info.split = object.string("split");
  const std::string length = object.string("max_length");
  const auto number = number_of<int>(length);
  if (!number || *number < 1 || *number > kLongestRow) {
    object.fail("max_length", length.substr(0, 16), fmt::format("a whole number from 1 to {}", kLongestRow));
  }
  info.max_length = *number;
  const Json labels = {{"labels", parse_json(object.string("labels"), object.where() + ": field 'labels'")}};
  info.labels = JsonObject(labels, object.where()).strings("labels");
  object.finish();
  return info;
}

Features features_of(const TensorSet& set, const std::string& where) {
  const std::vector<std::string> known(kTensors.begin(), kTensors.end());
  for (const auto& [name, view] : set.tensors) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw_bad_file(where, Hint{suggestion(name, known)}, "unknown tensor '{}'", name);
    }
  }
  Features out;
  out.info = read_info(set, where);
  out.ids = list_in<int32_t>(set, where, "ids", DType::i32);
  out.types = list_in<uint8_t>(set, where, "types", DType::u8, static_cast<int64_t>(out.ids.size()));
  out.gold = list_in<float>(set, where, "gold", DType::f32);
  const auto rows = static_cast<int64_t>(out.gold.size());
  out.index = list_in<int64_t>(set, where, "index", DType::i64, rows);
  out.offsets = list_in<int64_t>(set, where, "offsets", DType::i64, rows + 1);
  if (set.find("sets") != nullptr)
    out.sets = list_in<float>(set, where, "sets", DType::f32, rows * static_cast<int64_t>(out.info.labels.size()));
  check_features(out, where);
  return out;
}

}  // namespace

std::vector<int> text_lengths(const Dataset& data, const Tokenizer& tokenizer, size_t most) {
  const size_t rows = data.examples.size(), count = std::min(rows, most);
  std::vector<int> lengths;
  lengths.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const Example& example = data.examples[i * rows / count];
    const Encoding whole = tokenizer.encode(example.text, example.pair, {.max_length = kNoLimit});
    lengths.push_back(static_cast<int>(whole.ids.size()));
  }
  return lengths;
}

Features make_features(const Dataset& data, const Tokenizer& tokenizer, const FeatureOptions& options) {
  check(options.max_length > 0, "a row has room for tokens");
  const size_t rows = data.examples.size();
  struct Tokens {
    std::vector<int32_t> ids;
    std::vector<uint8_t> types;
  };
  std::vector<Tokens> encoded(rows);
  std::atomic<int64_t> truncated{0}, lost{0};
  const EncodeOptions encode{.max_length = options.max_length};
  parallel_for(static_cast<int64_t>((rows + kPiece - 1) / kPiece), options.threads, [&](int64_t piece) {
    const size_t first = static_cast<size_t>(piece) * kPiece;
    for (size_t row = first; row < std::min(first + kPiece, rows); ++row) {
      const Example& example = data.examples[row];
      Encoding encoding = tokenizer.encode(example.text, example.pair, encode);
      check(encoding.ids.size() == encoding.types.size(), "every token has a type");
      if (encoding.truncated) {
        const Encoding whole = tokenizer.encode(example.text, example.pair, {.max_length = kNoLimit});
        lost += static_cast<int64_t>(whole.ids.size() - encoding.ids.size());
        ++truncated;
      }
      encoded[row] = {std::move(encoding.ids), std::move(encoding.types)};
    }
  });

  Features out;
  out.info = describe(data, options);
  out.truncated = truncated;
  out.lost_tokens = lost;
  out.offsets.reserve(rows + 1);
  for (const Tokens& tokens : encoded) {
    out.offsets.push_back(out.offsets.back() + static_cast<int64_t>(tokens.ids.size()));
  }
  out.ids.reserve(static_cast<size_t>(out.offsets.back()));
  out.types.reserve(out.ids.capacity());
  for (size_t row = 0; row < rows; ++row) {
    out.ids.insert(out.ids.end(), encoded[row].ids.begin(), encoded[row].ids.end());
    out.types.insert(out.types.end(), encoded[row].types.begin(), encoded[row].types.end());
    out.gold.push_back(data.examples[row].gold);
    out.index.push_back(data.examples[row].index);
    if (data.problem == Problem::multi_label) append_gold(data, data.examples[row], out.sets);
    encoded[row] = {};  // never keep a large data set in memory twice
  }
  check_features(out, "features");
  return out;
}

std::string truncation_text(const Features& features) {
  if (features.truncated == 0) return {};
  const auto kept = static_cast<double>(features.ids.size()), lost = static_cast<double>(features.lost_tokens);
  return fmt::format("{} of {} texts are longer than {} tokens and lose {:.1f} % of all tokens", features.truncated,
                     features.rows(), features.info.max_length, 100 * lost / (kept + lost));
}

void check_features(const Features& features, std::string_view where) {
  const size_t rows = features.rows();
  const auto tokens = static_cast<int64_t>(features.ids.size());
  check(features.offsets.size() == rows + 1 && features.index.size() == rows &&
            features.types.size() == features.ids.size(),
        "features have one entry per row and per token");
  if (features.offsets.front() != 0 || features.offsets.back() != tokens) {
    throw_bad_file(where, "offsets: got {} to {}, want 0 to {}", features.offsets.front(), features.offsets.back(),
                   tokens);
  }
  for (size_t row = 0; row < rows; ++row) {
    const int64_t begin = features.offsets[row], end = features.offsets[row + 1];
    if (end < begin || end > tokens) {  // `begin` is the previous `end`; no subtraction that could overflow
      throw_bad_file(where, "row {}: got offsets {} to {}, want rising ones up to {}", row, begin, end, tokens);
    }
    const int64_t length = end - begin;
    if (length < 1 || length > features.info.max_length) {
      throw_bad_file(where, "row {}: got {} tokens, want 1 to {}", row, length, features.info.max_length);
    }
    const float gold = features.gold[row];
    const auto labels = static_cast<float>(features.info.labels.size());
    const bool index = labels == 0 || (gold >= 0 && gold < labels && gold == std::floor(gold));
    if (!std::isnan(gold) && !(std::isfinite(gold) && index)) {
      throw_bad_file(where, "row {}: got gold {}, want {}", row, gold,
                     labels == 0 ? "a finite number" : fmt::format("the index of one of {} labels", labels));
    }
  }
  if (!features.sets.empty()) {
    check(features.sets.size() == rows * features.info.labels.size(), "sets have one entry per row and label");
    const auto odd =
        std::find_if(features.sets.begin(), features.sets.end(), [](float one) { return one != 0 && one != 1; });
    if (odd != features.sets.end()) {
      throw_bad_file(where, "row {}: got {} for a label, want 1 or 0",
                     static_cast<size_t>(odd - features.sets.begin()) / features.info.labels.size(), *odd);
    }
  }
  const auto negative = std::find_if(features.ids.begin(), features.ids.end(), [](int32_t id) { return id < 0; });
  if (negative != features.ids.end()) {
    throw_bad_file(where, "token {}: got id {}, want 0 or more", negative - features.ids.begin(), *negative);
  }
}

Features read_features(const std::filesystem::path& path) {
  return features_of(read_safetensors(path), path.string());
}

Features parse_features(std::span<const std::byte> safetensors, std::string_view where) {
  return features_of(parse_safetensors(safetensors, where), std::string(where));
}

void write_features(const std::filesystem::path& path, const Features& features) {
  check_features(features, path.string());
  const FeatureInfo& info = features.info;
  std::vector<NamedTensor> tensors = {{"ids", view_of(DType::i32, features.ids)},
                                      {"types", view_of(DType::u8, features.types)},
                                      {"offsets", view_of(DType::i64, features.offsets)},
                                      {"gold", view_of(DType::f32, features.gold)},
                                      {"index", view_of(DType::i64, features.index)}};
  if (!features.sets.empty()) tensors.push_back({"sets", view_of(DType::f32, features.sets)});
  const Metadata metadata = {{"format", std::string(kFeatureFormat)},
                             {"tokenizer", info.tokenizer},
                             {"data", info.data},
                             {"task", info.task},
                             {"split", info.split},
                             {"labels", Json(info.labels).dump()},
                             {"max_length", std::to_string(info.max_length)}};
  write_safetensors(path, tensors, metadata);
}

}  // namespace exeunt
