// SPDX-License-Identifier: Apache-2.0
// Loading takes at most the file's size and 64 MiB more, whatever the file says. Each file is read in a process of its
// own, whose peak is then known.
#include <algorithm>
#include <fstream>
#include <functional>
#include <numeric>

#include "exeunt/base/json.h"
#include "exeunt/model/checkpoint.h"
#include "exeunt/model/config.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/exits_file.h"
#include "exeunt/model/manifest.h"
#include "exeunt/model/profile.h"
#include "exeunt/model/torch_file.h"
#include "lab/tensorflow/tf_bundle.h"
#include "lab/tensorflow/tf_names.h"
#include "tests/fixtures/peak_memory.h"
#include "tests/fixtures/repeated.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/lab/tensorflow/tf_builder.h"
#include "tests/unit/model/others.h"
#include "tests/unit/model/pickle_builder.h"

namespace exeunt {
namespace {

using std::literals::string_literals::operator""s;

class Memory : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  }
  // Writes the file before the new process starts, so that the test's own copy does not count.
  void expect_within(const char* what, const std::string& name, const std::string& content,
                     const std::function<void(const std::filesystem::path&)>& read) {
    const auto path = scratch_.write(name, content);
    const long grown = peak_growth([&] { read(path); });
    RecordProperty(what, static_cast<int>(grown));
    EXPECT_GE(grown, 0) << what;
    EXPECT_LE(grown, static_cast<long>(content.size() >> 10) + kAllowance) << what;
  }
  void expect_torch_within(const char* what, const std::string& content) {
    expect_within(what, "f.bin", content, [](const auto& path) { (void)read_torch(path); });
  }

  Scratch scratch_;
};

TEST_F(Memory, ZipFileIsNotCopied) {
  using namespace pickled;
  constexpr int64_t kElements = 24 << 20;
  const std::string tensor_text =
      tensor({.storage = storage({.elements = kElements}), .shape = {kElements}, .strides = {1}});
  expect_torch_within("96 MiB of weights", build_zip({{.name = "a/data.pkl", .data = pickle(state_dict(tensor_text))},
                                                      {.name = "a/data/0", .data = std::string(kElements * 4, 'x')}}));
}

TEST_F(Memory, HostilePicklesStayWithinLimit) {
  using pickled::legacy_file, pickled::name, pickled::pickle, pickled::tensor, pickled::text;
  expect_torch_within("tuples of one", legacy_file(pickle("](" + repeated("]\x85", 131000) + "e")));
  expect_torch_within("empty dicts in a list", legacy_file(pickle("](" + repeated("}", 262000) + "e")));
  std::string full_memo;
  for (uint64_t i = 0; i < 262000; ++i) full_memo += "Nr" + little(i, 4);
  expect_torch_within("a full memo", legacy_file(pickle(full_memo)));
  expect_torch_within("many items", legacy_file(pickle("Nq\0]"s + repeated("(" + repeated("h\0"s, 250000) + "e", 4))));
  expect_torch_within("many tensors", legacy_file(pickle("}(" + tensor({.storage = pickled::storage({.view = "N"})}) +
                                                         "q\0"s + repeated("X\1\0\0\0nh\0"s, 120000) + "u")));
  std::string names = "}(" + text("w") + tensor({.storage = pickled::storage({.view = "N"})}) + "q\1";
  for (int i = 0; i < 120000; ++i) names += text(std::to_string(i)) + "h\1";
  expect_torch_within("120,000 names for one tensor", legacy_file(pickle(names + "u")));
}

TEST_F(Memory, ManyZipEntriesStayWithinLimit) {
  std::vector<ZipPart> parts;
  for (int i = 0; i < 100000; ++i) parts.push_back({.name = "a/" + std::to_string(i), .data = "x", .flags = 0});
  expect_torch_within("100,000 entries", build_zip(parts, {.narrow_count = 0xffff}));
}

TEST_F(Memory, LongTableNamesStayWithinLimit) {
  // Keys that share all but their end with the one before: a few bytes each in the file, 160 in memory.
  std::string block = tf::varint(0) + tf::varint(0) + tf::varint(tf::header().size()) + tf::header();
  const std::string entry = tf::entry({.shape = {0}, .size = 0, .crc = masked_crc32c({})});
  std::string last(160, 'k');
  block += tf::varint(0) + tf::varint(last.size()) + tf::varint(entry.size()) + last + entry;
  for (int i = 0; i < 49000; ++i) {
    const std::string key = std::string(155, 'k') + fmt::format("l{:05}", i);
    const size_t shared = i == 0 ? 155 : 156;
    block +=
        tf::varint(shared) + tf::varint(key.size() - shared) + tf::varint(entry.size()) + key.substr(shared) + entry;
  }
  block += little(0, 4) + little(1, 4);
  scratch_.write("m.data-00000-of-00001", "");
  expect_within("49,000 long names", "m.index", tf::table({.blocks = {block}}),
                [](const auto& path) { (void)read_tf_checkpoint(path); });
  EXPECT_EQ(read_tf_checkpoint(scratch_.path() / "m").tensors.size(), 49001U);
}

// Headers of 8 MiB, as long as they may be; what is in them is read as JSON, whose values take more than their text.
TEST_F(Memory, LongestSafetensorsHeadersStayWithinLimit) {
  constexpr size_t kHeader = (size_t{8} << 20) - 64;
  const auto file = [](std::string header) {
    header.resize(kHeader, ' ');
    return little(header.size(), 8) + header;
  };
  const auto listed = [](const std::string& item) {
    std::string all = item;
    while (all.size() + item.size() + 16 < kHeader) all += ',' + item;
    return "{\"x\":[" + all + "]}";
  };
  std::string tensors = "{", metadata = R"({"__metadata__":{)";
  for (int i = 0; i < 50'000; ++i)
    tensors += fmt::format(R"({}"k{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", i > 0 ? "," : "", i);
  for (int i = 0; metadata.size() + 40 < kHeader; ++i) metadata += fmt::format(R"({}"k{}":"v")", i > 0 ? "," : "", i);
  const auto read = [](const auto& path) { (void)read_safetensors(path); };
  for (const char* item : {"[]", "{}", "1", R"("")", R"({"a":[1,2]})"})
    expect_within(item, "f.safetensors", file(listed(item)), read);
  expect_within("50,000 tensors", "f.safetensors", file(tensors + "}"), read);
  expect_within("metadata", "f.safetensors", file(metadata + "}}"), read);
  expect_within("one text", "f.safetensors", file(R"({"x":")" + std::string(kHeader - 16, 'x') + R"("})"), read);
}

// Every other file of a model folder is JSON of at most 16 MiB; whatever it holds, reading it takes no more than that.
TEST_F(Memory, LargestConfigurationsStayWithinLimit) {
  const auto listed = [](const std::string& before, const std::string& item, const std::string& after) {
    std::string all = before + item;
    all.reserve(kMaxJsonFile);
    while (all.size() + item.size() + after.size() + 1 < kMaxJsonFile) all += ',' + item;
    return all + after;
  };
  std::string members = "{";
  for (int i = 0; members.size() + 40 < kMaxJsonFile; ++i)
    members += fmt::format("{}\"k{}\":{}", i > 0 ? "," : "", i, i);
  const std::vector<std::pair<const char*, std::string>> contents = {
      {"lists", listed("{\"x\":[", "[]", "]}")},
      {"objects", listed("{\"x\":[", "{}", "]}")},
      {"numbers", listed("[", "1", "]")},
      {"texts", listed("[", "\"\"", "]")},
      {"nested", listed("[", R"({"a":{"b":[]}})", "]")},
      {"one text", "\"" + std::string(kMaxJsonFile - 2, 'x') + "\""},
      {"members", members + "}"}};
  using Read = std::function<void(const std::filesystem::path&)>;
  const std::vector<std::pair<const char*, Read>> formats = {
      {"manifest.json", [](const auto& path) { (void)parse_manifest(read_json(path), "m"); }},
      {"config.json", [](const auto& path) { (void)parse_config(read_json(path), "c"); }},
      {"exits.json", [](const auto& path) { (void)parse_exits(read_json(path), ModelSpec{}, "e"); }},
      {"profile.json", [](const auto& path) { (void)read_profile(path, 12); }},
      {"model.safetensors.index.json", [](const auto& path) { (void)Checkpoint::open(path.string()); }}};
  for (const auto& [what, content] : contents) {  // one reader for all of them
    const auto& [name, read] = formats.front();
    expect_within(fmt::format("{}: {}", name, what).c_str(), name, content, read);
  }
  for (const auto& [name, read] : formats) {
    expect_within(fmt::format("{}: {}", name, contents.back().first).c_str(), name, contents.back().second, read);
    const auto path = scratch_.write(name, std::string(kMaxJsonFile + 1, ' '));
    EXPECT_THAT(error_of([&, r = read] { r(path); }).what(), testing::HasSubstr("want at most 16777216")) << name;
  }
  // Labels of as many classes as there may be, twice, as in a config.json of transformers.
  std::string labels = R"({"id2label":{)", ids = R"(},"label2id":{)";
  for (int i = 0; i < kMaxOutputs; ++i) {
    labels += fmt::format(R"({}"{}":"a label of a usual length {}")", i > 0 ? "," : "", i, i);
    ids += fmt::format(R"({}"a label of a usual length {}":{})", i > 0 ? "," : "", i, i);
  }
  const auto path = scratch_.write("config.json", labels + ids + "}}");
  EXPECT_NO_THROW((void)read_json(path));
}

// A BERT of one layer, nearly all of it in the two matrices of its inner part: 96 MiB.
constexpr int64_t kWide = 1024, kInner = 12288;

std::vector<std::pair<std::string, std::vector<int64_t>>> wide_bert(bool google) {
  std::vector<std::pair<std::string, std::vector<int64_t>>> out;
  const std::string layer = google ? "bert/encoder/layer_0/" : "encoder.layer.0.", weight = google ? "" : ".weight";
  const auto named = [&](std::string name) {
    if (google) std::replace(name.begin(), name.end(), '.', '/');
    return name;
  };
  const auto linear = [&](const char* name, int64_t rows, int64_t columns) {
    const std::string whole = layer + named(name);
    out.emplace_back(google ? whole + "/kernel" : whole + ".weight",
                     google ? std::vector<int64_t>{columns, rows} : std::vector<int64_t>{rows, columns});
    out.emplace_back(whole + (google ? "/bias" : ".bias"), std::vector<int64_t>{rows});
  };
  const auto norm = [&](const std::string& name) {
    out.emplace_back(name + (google ? "/gamma" : ".weight"), std::vector<int64_t>{kWide});
    out.emplace_back(name + (google ? "/beta" : ".bias"), std::vector<int64_t>{kWide});
  };
  const std::string embeddings = google ? "bert/embeddings/" : "embeddings.";
  out.emplace_back(embeddings + "word_embeddings" + weight, std::vector<int64_t>{others::kVocab, kWide});
  out.emplace_back(embeddings + "position_embeddings" + weight, std::vector<int64_t>{others::kPositions, kWide});
  out.emplace_back(embeddings + "token_type_embeddings" + weight, std::vector<int64_t>{2, kWide});
  norm(embeddings + "LayerNorm");
  for (const char* part : {"attention.self.query", "attention.self.key", "attention.self.value"})
    linear(part, kWide, kWide);
  linear("attention.output.dense", kWide, kWide);
  norm(layer + named("attention.output.LayerNorm"));
  linear("intermediate.dense", kInner, kWide);
  linear("output.dense", kWide, kInner);
  norm(layer + named("output.LayerNorm"));
  std::sort(out.begin(), out.end());
  return out;
}

// Both as files of zeros; their sizes.
uintmax_t save_wide_safetensors(const std::filesystem::path& folder) {
  const std::vector<std::byte> zeros(kWide * kInner * sizeof(float));
  std::vector<NamedTensor> tensors;
  for (const auto& [name, shape] : wide_bert(false)) {
    const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    TensorView view;
    view.dtype = DType::f32;
    view.shape = shape;
    view.bytes = std::span(zeros).first(static_cast<size_t>(count) * sizeof(float));
    tensors.push_back({name, view});
  }
  write_safetensors(folder / "model.safetensors", tensors);
  return std::filesystem::file_size(folder / "model.safetensors");
}

uintmax_t save_wide_tensorflow(const std::filesystem::path& folder) {
  const std::string zeros(kWide * kInner * sizeof(float), '\0');
  std::ofstream data(folder / "bert_model.ckpt.data-00000-of-00001", std::ios::binary);
  tf::Pairs entries{{"", tf::header()}};
  uint64_t offset = 0;
  for (const auto& [name, shape] : wide_bert(true)) {
    const int64_t count = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    const std::string_view part = std::string_view(zeros).substr(0, static_cast<size_t>(count) * sizeof(float));
    entries.emplace_back(name, tf::entry({.shape = {shape.begin(), shape.end()},
                                          .offset = offset,
                                          .size = part.size(),
                                          .crc = masked_crc32c(std::as_bytes(std::span(part)))}));
    data << part;
    offset += part.size();
  }
  std::ofstream(folder / "bert_model.ckpt.index", std::ios::binary) << tf::table({.blocks = {tf::block(entries)}});
  return offset;
}

TEST_F(Memory, ModelIsConvertedWithoutCopy) {
  const Json config = others::config(
      "bert",
      {{"hidden_size", kWide}, {"num_hidden_layers", 1}, {"num_attention_heads", 16}, {"intermediate_size", kInner}});
  for (const bool google : {false, true}) {
    const Scratch scratch(quick_parent());
    scratch.write(google ? "bert_config.json" : "config.json", config.dump());
    scratch.write("vocab.txt", "[PAD]\n[UNK]\n");
    const uintmax_t size = google ? save_wide_tensorflow(scratch.path()) : save_wide_safetensors(scratch.path());
    ASSERT_GT(size, uintmax_t{64} << 20);  // else a copy would go unseen
    const std::filesystem::path out = scratch.path() / "out";
    const long grown =
        peak_growth([&] { (void)write_exeunt_folder(open_checkpoint(scratch.path(), {}, read_tf_model), out); });
    EXPECT_TRUE(std::filesystem::exists(out)) << google;
    EXPECT_GE(grown, 0) << google;
    EXPECT_LE(grown, static_cast<long>(size >> 10) + kAllowance / 4) << google;  // less than one of the two matrices
    RecordProperty(google ? "tensorflow" : "safetensors", static_cast<int>(grown));
  }
}

}  // namespace
}  // namespace exeunt
