// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/exeunt_folder.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/base/sha256.h"
#include "exeunt/model/config.h"
#include "exeunt/model/exits_file.h"
#include "exeunt/model/family.h"
#include "exeunt/model/manifest.h"
#include "exeunt/model/schema.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

constexpr const char* kRecipeFile = "recipe.json";
constexpr const char* kPolicyFile = "policy.json";
constexpr const char* kPrecisionFile = "precision.json";

// Of files that are copied: what a sparse file claims would be written out.
constexpr size_t kMaxTokenizerFile = size_t{1} << 28, kMaxLearnedFile = size_t{1} << 30;

// Everything a tokenizer may need, copied byte for byte.
constexpr const char* kTokenizerFiles[] = {"tokenizer.json",
                                           "tokenizer_config.json",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "vocab.txt",
                                           "vocab.json",
                                           "merges.txt",
                                           "spiece.model",
                                           "spiece.vocab",
                                           "spm.model",
                                           "sentencepiece.bpe.model",
                                           "30k-clean.model",
                                           "30k-clean.vocab"};

// Calls `take` for every part of a mapped file, whose pages are given back.
template <class Take>
void in_pieces(std::span<const std::byte> mapped, const Take& take) {
  constexpr size_t kPiece = size_t{16} << 20;
  while (!mapped.empty()) {
    const std::span<const std::byte> piece = mapped.first(std::min(kPiece, mapped.size()));
    take(piece);
    drop_pages(piece);
    mapped = mapped.subspan(piece.size());
  }
}

std::vector<NamedTensor> in_schema_order(const Checkpoint& checkpoint) {
  std::vector<NamedTensor> tensors;
  for (const TensorInfo& info : schema(checkpoint.spec(), checkpoint.exits())) {
    if (const TensorView* view = checkpoint.find(info.name)) tensors.push_back({info.name, *view});
  }
  return tensors;
}

Metadata own_metadata() {
  return {{"format", std::string(kWeightsFormat)}};
}

// Writes the files of a folder and collects the manifest.
class FolderWriter {
 public:
  FolderWriter(const Checkpoint& checkpoint, fs::path folder) : checkpoint_(checkpoint), folder_(std::move(folder)) {}

  void text(const char* name, std::string_view content) {
    write_atomically(folder_ / name, content);
    manifest_[name] = {content.size(), sha256_hex(content)};
  }

  // Writes and hashes in one pass over the tensors.
  std::string weights(const std::vector<NamedTensor>& tensors, const Metadata& metadata) {
    AtomicFile file(folder_ / kWeightsFile);
    Sha256 hash;
    uint64_t bytes = 0;
    stream_safetensors(tensors, metadata, [&](std::span<const std::byte> piece) {
      file.write(piece);
      hash.add(piece);
      bytes += piece.size();
    });
    file.commit();
    manifest_[kWeightsFile] = {bytes, hash.hex()};
    return manifest_[kWeightsFile].sha256;
  }

  void tokenizer() {
    bool any = false;
    for (const char* name : kTokenizerFiles) any = copy(name, kMaxTokenizerFile) || any;
    if (!any) notices_.push_back("no tokenizer files beside the weights: texts cannot be encoded with this folder");
  }

  void recipe(const std::string& given) {
    if (!given.empty()) {
      text(kRecipeFile, given);
    } else {
      (void)copy(kRecipeFile, kMaxJsonFile);
    }
  }

  // Training replaces it by a list that has its own rows, too.
  void learned() { (void)copy(kLearnedFile, kMaxLearnedFile); }

  // A policy is bound to the weights it was made for.
  void policy(const std::string& weights) {
    const std::optional<ReadPath> source = find(kPolicyFile);
    if (!source) {
      if (checkpoint_.native_policy()) write_unlisted(kPolicyFile, json_text(uncertified_policy(weights)));
      return;
    }
    const Json value = read_json(*source);
    if (JsonObject(value, source->string()).string_or("weights", "") != weights) {
      notices_.push_back("policy.json was made for other weights and is left out");
      return;
    }
    write_unlisted(kPolicyFile, read_text(*source));
    if (const auto precision = find(kPrecisionFile)) write_unlisted(kPrecisionFile, read_text(*precision));
  }

  // Files written by `beside`; hashing reads them back, so the manifest lists what is on disk.
  void beside(const std::function<std::vector<std::string>(const fs::path&)>& add) {
    if (!add) return;
    for (const std::string& name : add(folder_)) {
      manifest_[name] = {fs::file_size(folder_ / name), sha256_file(folder_ / name)};
    }
  }

  void manifest() { write_unlisted(kManifestFile, json_text(manifest_json(manifest_))); }
  void notice(std::string line) { notices_.push_back(std::move(line)); }
  [[nodiscard]] std::vector<std::string> notices() && { return std::move(notices_); }

 private:
  void write_unlisted(const char* name, std::string_view content) { write_atomically(folder_ / name, content); }

  // TF-Hub keeps the tokenizer's files in assets/.
  [[nodiscard]] std::optional<ReadPath> find(const char* name) const {
    const fs::path& from = checkpoint_.folder();
    if (from.empty()) return std::nullopt;
    for (const fs::path& path : {fs::path(name), fs::path("assets") / name}) {
      if (path_exists(from / path)) return ReadPath::in(from, path);
    }
    return std::nullopt;
  }

  bool copy(const char* name, size_t limit) {
    const std::optional<ReadPath> source = find(name);
    if (!source) return false;
    const auto mapped = MappedFile::open(*source, limit);
    AtomicFile file(folder_ / name);
    Sha256 hash;
    in_pieces(mapped->bytes(), [&](std::span<const std::byte> piece) {
      file.write(piece);
      hash.add(piece);
    });
    file.commit();
    manifest_[name] = {mapped->bytes().size(), hash.hex()};
    return true;
  }

  [[nodiscard]] OrderedJson uncertified_policy(const std::string& weights) const {
    const std::vector<ExitSite>& sites = checkpoint_.exits().sites;
    std::vector<int> exits;
    for (const ExitSite& site : sites) exits.push_back(site.after);
    OrderedJson entry;
    entry["device"] = "cpu";
    entry["engine"] = "";
    entry["numerics"] = 0;
    entry["precision"] = "fp32";
    entry["precision_map"] = nullptr;
    entry["exits"] = exits;
    entry["decision_temperature"] = entry["score_temperature"] = std::vector<double>(sites.size(), 1.0);
    entry["policy"] = *checkpoint_.native_policy();
    entry["points"] = OrderedJson::array();
    entry["certificate"] = nullptr;
    OrderedJson out;
    out["format"] = "exeunt.policy/3";
    out["weights"] = weights;
    out["default_precision"] = "fp32";
    out["entries"] = OrderedJson::array({std::move(entry)});
    return out;
  }

  const Checkpoint& checkpoint_;
  fs::path folder_;
  Manifest manifest_;
  std::vector<std::string> notices_;
};

// The family that transformers sees.
const FamilyRow& exported_row(const ModelSpec& spec) {
  return row_of(row_of(spec.family).exported_as);
}

// transformers' class for a family, by whether the folder has its one head.
std::string architecture_of(const ModelSpec& spec, bool with_head) {
  return fmt::format("{}{}", exported_row(spec).class_name, with_head ? "ForSequenceClassification" : "Model");
}

// transformers' one head reads row 0, ModernBERT's perhaps the mean, through the family's pooler, as wide as the
// encoder.
bool last_exit_fits(const Checkpoint& checkpoint) {
  const ExitLayout& exits = checkpoint.exits();
  const FamilyRow& row = exported_row(checkpoint.spec());
  if (exits.sites.empty() || exits.inner) return false;
  if (exits.input != PoolInput::cls && !(row.pools_mean && exits.input == PoolInput::mean)) return false;
  PoolerShape wanted = row.pooler;  // but for what its configuration says
  if (!row.head_activation.empty()) wanted.activation = exits.pooler.activation;
  if (row.pools_mean) wanted.bias = exits.pooler.bias;
  const ExitSite& last = exits.sites.back();
  return last.pooler && !last.reader && exits.width == checkpoint.spec().hidden && exits.pooler == wanted;
}

// The last exit under the names transformers gives its one head.
void add_last_exit(const Checkpoint& checkpoint, const std::string& prefix, std::vector<NamedTensor>& tensors) {
  const ExitSite& last = checkpoint.exits().sites.back();
  const FamilyRow& row = exported_row(checkpoint.spec());
  const std::string pooler(row.head.pooler.empty() ? prefix + std::string(row.poolers.front()) : row.head.pooler);
  const std::string classifier(row.head.classifier.empty() ? "classifier" : row.head.classifier);
  const auto add = [&](const std::string& theirs, const std::string& ours) {
    if (const TensorView* view = checkpoint.find(ours)) tensors.push_back({theirs, *view});
  };
  for (const std::string ending : {".weight", ".bias"}) {
    add(pooler + ending, fmt::format("exits.pooler.{}{}", *last.pooler, ending));
    add(classifier + ending, fmt::format("exits.classifier.{}{}", last.classifier, ending));
    add(std::string(row.head.norm) + ending, fmt::format("exits.pooler.{}.norm{}", *last.pooler, ending));
  }
}

// Parts of one tensor there, one below the other. `owned` keeps its bytes.
using Bytes = std::vector<std::byte>;
NamedTensor joined(const std::string& name, const std::vector<TensorView>& parts, std::deque<Bytes>& owned) {
  TensorView whole{.dtype = parts.front().dtype, .shape = parts.front().shape, .strides = {}, .bytes = {}};
  whole.shape.front() = 0;
  Bytes& bytes = owned.emplace_back();
  for (const TensorView& part : parts) {
    const size_t before = bytes.size(), size = static_cast<size_t>(part.elements()) * size_of(part.dtype);
    bytes.resize(before + size);
    copy_raw(part, std::span(bytes).subspan(before));
    whole.shape.front() += part.shape.front();
  }
  whole.bytes = bytes;
  return {name, whole};
}

std::vector<NamedTensor> hugging_face_tensors(const Checkpoint& checkpoint, bool with_head, std::deque<Bytes>& owned) {
  const ModelSpec& spec = checkpoint.spec();
  const std::string prefix = with_head ? fmt::format("{}.", exported_row(spec).prefix) : "";
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::vector<TensorView>> parts;
  for (const TensorInfo& info : schema(spec, checkpoint.exits())) {
    const TensorView* view = checkpoint.find(info.name);
    if (view == nullptr) continue;
    const bool exit = info.name.starts_with("exits.");
    const std::string name = exit ? info.name : prefix + info.aliases.front();
    if (info.of_rows == 0) {
      tensors.push_back({name, *view});
      continue;
    }
    std::vector<TensorView>& found = parts[name];
    found.push_back(*view);
    if (info.first_row + info.shape.front() == info.of_rows) tensors.push_back(joined(name, found, owned));
  }
  if (with_head) add_last_exit(checkpoint, prefix, tensors);
  // Of layers with poolers, that of the last one is the one a plain BERT has.
  for (const std::string ending : {".weight", ".bias"}) {
    const TensorView* pooler = checkpoint.find(fmt::format("pooler.{}{}", spec.layers - 1, ending));
    if (pooler != nullptr) tensors.push_back({"pooler.dense" + ending, *pooler});
  }
  return tensors;
}

// Thresholds other than one half belong to what a policy was made for: with others the same weights give other labels,
// and a promise about those must not hold for these.
std::string with_logit_thresholds(const std::string& weights, const ExitLayout& exits) {
  if (exits.logit_thresholds.empty()) return weights;
  Sha256 hash;
  hash.add(weights);
  hash.add(exits_json(exits)["thresholds"].dump());  // as written: what is read back has the same
  return hash.hex();
}

// The hash of the file that write_exeunt_folder() would write.
std::string hash_as_written(const Checkpoint& checkpoint) {
  Sha256 hash;
  stream_safetensors(in_schema_order(checkpoint), own_metadata(),
                     [&](std::span<const std::byte> piece) { hash.add(piece); });
  return hash.hex();
}

// The hash of the mapped file of an Exeunt folder, which must be the manifest's.
std::string hash_of_file(const Checkpoint& checkpoint) {
  Sha256 hash;
  in_pieces(checkpoint.tensors().mapped.front(), [&](std::span<const std::byte> piece) { hash.add(piece); });
  const std::string sha256 = hash.hex();
  if (sha256 != checkpoint.stored_sha256()) {
    throw Error(Code::bad_file,
                fmt::format("{}: got SHA-256 {}, want {} as the manifest says",
                            (checkpoint.folder() / kWeightsFile).string(), sha256, checkpoint.stored_sha256()),
                "the weights were changed after they were written: copy or make the folder again");
  }
  return sha256;
}

}  // namespace

std::vector<std::string> write_exeunt_folder(const Checkpoint& checkpoint, const fs::path& out,
                                             const WriteOptions& options) {
  AtomicFolder folder(out, options.replace);
  FolderWriter writer(checkpoint, folder.path());
  writer.text(kConfigFile, json_text(exeunt_config(checkpoint.spec())));
  writer.text(kExitsFile, json_text(exits_json(checkpoint.exits())));
  const std::string weights = writer.weights(in_schema_order(checkpoint), own_metadata());
  writer.tokenizer();
  writer.recipe(options.recipe);
  writer.learned();
  writer.policy(with_logit_thresholds(weights, checkpoint.exits()));
  writer.beside(options.beside);
  writer.manifest();
  folder.commit();
  return std::move(writer).notices();
}

std::vector<std::string> export_hugging_face(const Checkpoint& checkpoint, const fs::path& out,
                                             const WriteOptions& options) {
  const bool with_head = last_exit_fits(checkpoint);
  const std::string architecture = architecture_of(checkpoint.spec(), with_head);
  AtomicFolder folder(out, options.replace);
  FolderWriter writer(checkpoint, folder.path());
  const DType dtype = checkpoint.get("embeddings.word.weight").dtype;
  writer.text(kConfigFile, json_text(hugging_face_config(checkpoint.spec(), checkpoint.exits(), architecture, dtype)));
  writer.text(kExitsFile, json_text(exits_json(checkpoint.exits())));
  std::deque<Bytes> owned;
  (void)writer.weights(hugging_face_tensors(checkpoint, with_head, owned), {{"format", "pt"}});
  writer.tokenizer();
  writer.recipe(options.recipe);
  writer.learned();
  writer.policy(weights_sha256(checkpoint));
  writer.beside(options.beside);
  if (!with_head && !checkpoint.exits().sites.empty()) {
    writer.notice(
        fmt::format("the last exit has no counterpart in transformers: the folder loads there as {}, an "
                    "encoder without heads; the exits lie beside it as exits.*",
                    architecture));
  }
  folder.commit();
  return std::move(writer).notices();
}

std::vector<std::string> write_companions(const Checkpoint& checkpoint, const fs::path& folder) {
  FolderWriter writer(checkpoint, folder);
  writer.text(kConfigFile, json_text(exeunt_config(checkpoint.spec())));
  writer.text(kExitsFile, json_text(exits_json(checkpoint.exits())));
  writer.tokenizer();
  writer.policy(weights_sha256(checkpoint));
  return std::move(writer).notices();
}

std::string weights_sha256(const Checkpoint& checkpoint) {
  WeightsHash& hashed = checkpoint.hashed();
  const std::lock_guard lock(hashed.mutex);
  if (hashed.sha256.empty()) {
    hashed.sha256 = checkpoint.stored_sha256().empty() ? hash_as_written(checkpoint) : hash_of_file(checkpoint);
  }
  return with_logit_thresholds(hashed.sha256, checkpoint.exits());
}

std::string claimed_sha256(const Checkpoint& checkpoint) {
  if (checkpoint.stored_sha256().empty()) return weights_sha256(checkpoint);
  return with_logit_thresholds(checkpoint.stored_sha256(), checkpoint.exits());
}

}  // namespace exeunt
