// SPDX-License-Identifier: Apache-2.0
#include "lab/tensorflow/tf_bundle.h"

#include <algorithm>

#include "exeunt/base/files.h"
#include "tests/fixtures/scratch.h"
#include "tests/unit/lab/tensorflow/tf_builder.h"
#include "tests/unit/model/expected_tensors.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;
using std::literals::string_literals::operator""s;
using testing::AllOf;
using testing::HasSubstr;
using tf::TableText;

const std::string kData = EXEUNT_TEST_DATA "/model/data/";

std::string bundle_error(const std::string& index) {
  return error_of([&] { (void)parse_tf_index(bytes_of(index), "f"); }).what();
}
std::string table_message(const TableText& text) {
  return bundle_error(tf::table(text));
}
std::string message_with_entry(const std::string& entry, const std::string& name = "w") {
  return table_message({.blocks = {tf::block({{"", tf::header()}, {name, entry}})}});
}

// scripts/golden/tf_bundle.py wrote these from the format's description.
TEST(TfBundle, ReadsExpectedTensors) {
  expect_tensors(read_tf_checkpoint(kData + "tf/model.ckpt-7"), kData + "tf/expected.json");
  expect_tensors(read_tf_checkpoint(kData + "tf-hub/variables/variables"), kData + "tf-hub/expected.json");
}

TEST(TfBundle, FindsCheckpointByAnyName) {
  for (const char* name :
       {"tf", "tf/model.ckpt-7.index", "tf/model.ckpt-7.data-00001-of-00002", "tf/model.ckpt-7.meta"})
    EXPECT_EQ(read_tf_checkpoint(kData + name).tensors.size(),
              read_tf_checkpoint(kData + "tf/model.ckpt-7").tensors.size());
  EXPECT_EQ(read_tf_checkpoint(kData + "tf-hub").tensors.size(), 14U);
}

TEST(TfBundle, MissingCheckpointIsNamed) {
  const Scratch scratch;
  const auto message = [&](const fs::path& path) {
    return std::string(error_of([&] { (void)read_tf_checkpoint(path); }).what());
  };
  EXPECT_THAT(message(scratch.path()), HasSubstr("want a file *.index"));
  EXPECT_THAT(message(scratch.path() / "model.ckpt"), HasSubstr("model.ckpt.index: cannot open"));
  scratch.write("model.ckpt", "old");
  const Error old = error_of([&] { (void)read_tf_checkpoint(scratch.path() / "model.ckpt"); });
  EXPECT_THAT(old.what(), HasSubstr("version 1 or none at all"));
  EXPECT_THAT(old.hint(), HasSubstr("SaverDef.V2"));
  scratch.write("a.index", read_text(kData + "tf/model.ckpt-7.index"));
  EXPECT_THAT(message(scratch.path()), HasSubstr("a.data-00000-of-00002: cannot open"));
  scratch.write("b.index", "");
  EXPECT_THAT(message(scratch.path()), AllOf(HasSubstr("got 2 checkpoints"), HasSubstr("a.index")));
  EXPECT_THAT(message(scratch.path() / "b"), HasSubstr("b.index: no TensorFlow index ends here"));
}

TEST(TfBundle, DetectsDamagedShards) {
  const Scratch scratch;
  for (const auto& entry : fs::directory_iterator(kData + "tf")) fs::copy(entry.path(), scratch.path());
  const fs::path shard = scratch.path() / "model.ckpt-7.data-00001-of-00002";
  const std::string good = read_text(shard);
  std::string damaged = good;
  damaged[good.size() - 1] ^= 1;
  scratch.write(shard.filename().string(), damaged);
  EXPECT_THAT(error_of([&] { (void)read_tf_checkpoint(scratch.path()); }).what(),
              AllOf(HasSubstr("data-00001-of-00002: tensor 'types/"), HasSubstr("its bytes do not match their CRC")));
  scratch.write(shard.filename().string(), good.substr(0, good.size() - 1));
  EXPECT_THAT(error_of([&] { (void)read_tf_checkpoint(scratch.path()); }).what(), HasSubstr("it is truncated"));
}

TEST(TfBundle, RecognizesOptimizerState) {
  for (const char* name :
       {"bert/pooler/dense/kernel/adam_m", "bert/pooler/dense/kernel/adam_v", "bert/pooler/dense/kernel/Adam",
        "bert/pooler/dense/kernel/Adam_1", "bert/pooler/dense/kernel/lamb_m", "bert/pooler/dense/kernel/LAMB",
        "bert/pooler/dense/kernel/AdamWeightDecayOptimizer_1", "global_step", "beta1_power", "bert/x/Momentum",
        "optimizer/iter/.ATTRIBUTES/VARIABLE_VALUE", "save_counter/.ATTRIBUTES/VARIABLE_VALUE",
        "model/w/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE"})
    EXPECT_TRUE(is_optimizer_slot(name)) << name;
  for (const char* name : {"bert/pooler/dense/kernel", "bert/embeddings/LayerNorm/beta", "adam/dense/kernel", "lam", "",
                           "model/bert/kernel/.ATTRIBUTES/VARIABLE_VALUE", "bert/beta"})
    EXPECT_FALSE(is_optimizer_slot(name)) << name;
}

TEST(TfTable, ReadsEntriesInOrderAcrossBlocks) {
  // The second block shares prefixes: "k" + "ey2" and, after "key2", 3 of them + "3".
  const std::string second =
      "\0\4\1key2x\3\1\1"
      "3y"s +
      little(0, 4) + little(1, 4);
  const std::string bytes = tf::table({.blocks = {tf::block({{"", "a"}, {"key1", "b"}}), second}});
  std::string seen;
  for_each_in_table(
      bytes_of(bytes), "f", CrcCheck::verify, [&](std::string_view key, std::span<const std::byte> value) {
        seen += fmt::format("{}={} ", key, std::string_view(reinterpret_cast<const char*>(value.data()), value.size()));
      });
  EXPECT_EQ(seen, "=a key1=b key2=x key3=y ");
}

TEST(TfTable, RejectsBrokenTables) {
  const std::string good = tf::block({{"", tf::header()}});
  EXPECT_THAT(bundle_error(""s), HasSubstr("no TensorFlow index ends here"));
  EXPECT_THAT(bundle_error(std::string(100, 'x')), HasSubstr("no TensorFlow index ends here"));
  EXPECT_THAT(bundle_error(tf::table({.blocks = {good}}) + "x"), HasSubstr("no TensorFlow index ends here"));
  EXPECT_THAT(table_message({.blocks = {good}, .handles = std::string(40, '\xff')}),
              HasSubstr("place of a block is damaged"));
  EXPECT_THAT(table_message({.blocks = {good}, .handles = tf::handle(0, 1000)}), HasSubstr("1000 bytes do not fit"));
  EXPECT_THAT(table_message({.blocks = {good}, .handles = tf::handle(~uint64_t{0}, 8)}), HasSubstr("do not fit"));
  EXPECT_THAT(table_message({.blocks = {good}, .handles = tf::handle(8, ~uint64_t{0})}), HasSubstr("do not fit"));
  EXPECT_THAT(table_message({.blocks = {good}, .index = tf::Pairs{{"z", "\xff"}}}),
              HasSubstr("place of a block is damaged"));
  EXPECT_THAT(table_message({.blocks = {good}, .index = tf::Pairs{{"z", tf::handle(0, 1 << 20)}}}),
              HasSubstr("do not fit"));
  EXPECT_THAT(table_message({.blocks = {good}, .kind = 1}), HasSubstr("got a compressed block (kind 1), want none"));
  const std::string place = tf::handle(0, good.size());
  EXPECT_THAT(table_message({.blocks = {good}, .index = tf::Pairs{{"y", place}, {"z", place}}}),
              HasSubstr("the block at byte 0 overlaps the one before it"));
  std::string flipped = tf::table({.blocks = {good}});
  flipped[2] ^= 1;
  EXPECT_THAT(bundle_error(flipped), HasSubstr("f: block at byte 0: its bytes do not match their CRC"));
}

TEST(TfTable, RejectsBrokenBlocks) {
  const auto message = [](const std::string& block) {
    const std::string table = tf::table({.blocks = {block}});
    const auto ignore = [](std::string_view, std::span<const std::byte>) {};
    return std::string(error_of([&] { for_each_in_table(bytes_of(table), "f", CrcCheck::verify, ignore); }).what());
  };
  const std::string tail = little(0, 4) + little(1, 4);
  EXPECT_THAT(message("abc"), HasSubstr("got 0 restarts in 3 bytes"));
  EXPECT_THAT(message(little(0, 4)), HasSubstr("got 0 restarts in 4 bytes"));
  EXPECT_THAT(message(little(0, 4) + little(2, 4)), HasSubstr("got 2 restarts in 8 bytes"));
  EXPECT_THAT(message(little(0, 4) + little(0xffffffff, 4)), HasSubstr("got 4294967295 restarts"));
  EXPECT_THAT(message(little(1, 4) + little(1, 4)), HasSubstr("first key is not written in full"));
  EXPECT_THAT(message("\1\1\1xy" + tail), HasSubstr("the entry at byte 0 of it is damaged"));  // shares with nothing
  EXPECT_THAT(message("\0\x09\1xy"s + tail), HasSubstr("the entry at byte 0 of it is damaged"));
  EXPECT_THAT(message("\0\1\x09xy"s + tail), HasSubstr("the entry at byte 0 of it is damaged"));
  EXPECT_THAT(message("\0"s + tail), HasSubstr("the entry at byte 0 of it is damaged"));
  EXPECT_THAT(message("\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\1"s + tail), HasSubstr("is damaged"));
  EXPECT_THAT(message(tf::varint(0) + tf::varint(1025) + tf::varint(0) + std::string(1025, 'k') + tail),
              HasSubstr("is damaged"));
  EXPECT_THAT(message("\0\1\0k"s + little(0, 4) + little(3, 4) + little(2, 4)),
              HasSubstr("a restart lies behind the last entry"));
  EXPECT_THAT(message("\0\1\0k\1\1\0l"s + little(0, 4) + little(4, 4) + little(2, 4)),
              HasSubstr("the key at byte 4 of it is not written in full"));
}

TEST(TfTable, RejectsUnsortedKeys) {
  const std::string entry = tf::entry({.shape = {0}, .size = 0});
  const auto message = [](const tf::Pairs& pairs) { return table_message({.blocks = {tf::block(pairs)}}); };
  EXPECT_THAT(message({{"", tf::header()}, {"b", entry}, {"a", entry}}), HasSubstr("key 'a' is not behind 'b'"));
  EXPECT_THAT(message({{"", tf::header()}, {"b", entry}, {"b", entry}}), HasSubstr("key 'b' is not behind 'b'"));
  EXPECT_THAT(message({{"", tf::header()}, {"", tf::header()}}), HasSubstr("key '' is not behind ''"));
  const std::string block = tf::block({{"", tf::header()}, {"b", entry}});
  EXPECT_THAT(table_message({.blocks = {block}, .index = tf::Pairs{{"a", tf::handle(0, block.size())}}}),
              HasSubstr("key 'b' is not in the block it should be in"));
}

TEST(TfBundle, RejectsInvalidHeaders) {
  const auto message = [](const std::string& header) { return table_message({.blocks = {tf::block({{"", header}})}}); };
  EXPECT_THAT(table_message({.blocks = {}}), HasSubstr("the table is empty"));
  EXPECT_THAT(table_message({.blocks = {tf::block({{"w", tf::entry()}})}}), HasSubstr("the table has no header"));
  EXPECT_THAT(message(""), HasSubstr("f: header: got 0 shards, want 1 to 99999"));
  EXPECT_THAT(message(tf::header(100000)), HasSubstr("got 100000 shards"));
  EXPECT_THAT(message(tf::header(~uint64_t{0})), HasSubstr("got 18446744073709551615 shards"));
  EXPECT_THAT(message(tf::header() + tf::number(2, 1)), HasSubstr("the checkpoint is big-endian"));
  EXPECT_THAT(message(tf::header() + tf::message(3, tf::number(2, 2))), HasSubstr("for readers of version 2, want 1"));
  EXPECT_THAT(message(tf::message(1, "x")), HasSubstr("field 1: got counted bytes, want a varint"));
  EXPECT_THAT(message("\x0a\xff"), HasSubstr("malformed or truncated"));
}

TEST(TfBundle, RejectsInvalidEntries) {
  const auto message = [](const tf::EntryText& text) { return message_with_entry(tf::entry(text)); };
  EXPECT_THAT(message({.type = 0}), HasSubstr("f: tensor 'w': got TensorFlow type 0"));
  EXPECT_THAT(message({.type = 8}), HasSubstr("got TensorFlow type 8"));
  EXPECT_THAT(message({.type = 101}), HasSubstr("got TensorFlow type 101"));
  EXPECT_THAT(message({.shard = 1}), HasSubstr("got shard 1 of 1"));
  EXPECT_THAT(message({.shard = ~uint64_t{0}}), HasSubstr("of 1"));
  EXPECT_THAT(message({.size = 20}), HasSubstr("shape [2, 3] of F32 does not take 20 bytes"));
  EXPECT_THAT(message({.shape = {uint64_t{1} << 62, 4}, .size = 0}), HasSubstr("does not take 0 bytes"));
  EXPECT_THAT(message({.shape = {~uint64_t{0}}}), HasSubstr("got a side of -1, want 0 or more"));
  EXPECT_THAT(message({.shape = std::vector<uint64_t>(9, 1), .size = 4}), HasSubstr("got more than 8 sides"));
  EXPECT_THAT(message({.more = tf::message(2, tf::number(3, 1))}), HasSubstr("its shape is unknown"));
  EXPECT_THAT(message({.more = tf::message(7, "")}), HasSubstr("it is saved in slices"));
  EXPECT_THAT(message({.more = tf::number(6, 1)}), HasSubstr("field 6: got a varint, want 4 fixed bytes"));
  EXPECT_THAT(message({.more = tf::number(2, 1)}), HasSubstr("field 2: got a varint, want counted bytes"));
  EXPECT_THAT(message({.more = "\x12\x7f"}), HasSubstr("malformed or truncated"));
  EXPECT_THAT(message_with_entry(tf::entry(), std::string(600, 'n')), HasSubstr("got a name of 600 bytes"));
  EXPECT_THAT(message_with_entry(tf::entry(), "a\0b"s), HasSubstr("tensor 'a?b': got a name of 3 bytes, want UTF-8"));
  EXPECT_THAT(message_with_entry(tf::entry(), "\x01\xff"), HasSubstr("want UTF-8"));
}

TEST(TfBundle, RejectsOverlappingTensors) {
  const auto message = [](const tf::EntryText& second) {
    return table_message({.blocks = {tf::block({{"", tf::header(2)}, {"v", tf::entry()}, {"w", tf::entry(second)}})}});
  };
  EXPECT_THAT(message({.offset = 0}), HasSubstr("overlaps what follows it"));
  EXPECT_THAT(message({.offset = 23}), HasSubstr("tensor 'v' overlaps what follows it"));
  EXPECT_THAT(message({.offset = ~uint64_t{0}}), HasSubstr("tensor 'w' overlaps"));  // its end does not fit in 64 bits
  for (const tf::EntryText& apart : {tf::EntryText{.offset = 24}, tf::EntryText{.shard = 1}}) {
    const std::string good =
        tf::table({.blocks = {tf::block({{"", tf::header(2)}, {"v", tf::entry()}, {"w", tf::entry(apart)}})}});
    EXPECT_EQ(parse_tf_index(bytes_of(good), "f").entries.size(), 2U);
  }
}

TEST(TfBundle, RejectsEveryTruncationAndBitFlipOfIndex) {
  const std::string good = read_text(kData + "tf/model.ckpt-7.index");
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_EQ(error_of([&] { (void)parse_tf_index(bytes_of(good).first(size), "f"); }).code(), Code::bad_file) << size;
  // Checksums cover all blocks; the footer's padding carries nothing.
  const size_t footer = good.size() - 48, padding = good.find_last_not_of('\0', good.size() - 9) + 1;
  for (size_t i = 0; i < good.size(); ++i) {
    if (i >= padding && i < good.size() - 8 && i >= footer) continue;
    std::string flipped = good;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x10);
    EXPECT_EQ(error_of([&] { (void)parse_tf_index(bytes_of(flipped), "f"); }).code(), Code::bad_file) << i;
  }
}

}  // namespace
}  // namespace exeunt
