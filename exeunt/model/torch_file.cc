// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/torch_file.h"

#include <algorithm>
#include <string>
#include <utility>

#include "exeunt/base/checked.h"
#include "exeunt/base/files.h"
#include "exeunt/model/bytes.h"
#include "exeunt/model/torch_tensors.h"
#include "exeunt/model/zip_reader.h"

namespace exeunt {
namespace {

using Kind = PickleValue::Kind;

// The older form opens with a pickle of the number 0x1950a86a20f9469cfc6c.
constexpr std::string_view kLegacyMagic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
constexpr std::string_view kZipMagic("PK\x03\x04");
constexpr int64_t kLegacyProtocol = 1001;

using Entries = std::map<std::string_view, std::span<const std::byte>>;

// "archive/data.pkl" → "archive/". The folder's name is the file's when it was saved, so it can be anything.
std::string find_folder(const Entries& entries, std::string_view where) {
  constexpr std::string_view kPickle = "/data.pkl";
  std::string folder;
  for (const auto& [name, bytes] : entries) {
    if (!name.ends_with(kPickle) || name.find('/') != name.size() - kPickle.size()) continue;
    if (!folder.empty()) throw_bad_file(where, kTorchHint, "the zip archive holds more than one data.pkl");
    folder = name.substr(0, name.size() - kPickle.size() + 1);
  }
  if (folder.empty()) throw_bad_file(where, kTorchHint, "the zip archive holds no data.pkl: PyTorch did not write it");
  return folder;
}

void check_archive(const Entries& entries, const std::string& folder, std::string_view where) {
  const auto stray =
      std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return !entry.first.starts_with(folder); });
  if (stray != entries.end())
    throw_bad_file(where, kTorchHint, "entry '{}' lies outside the folder '{}'", printable(stray->first), folder);
  if (entries.contains(folder + "constants.pkl"))
    throw_bad_file(where, kTorchHint, "this is a TorchScript program, want a state dict");
  if (const auto order = entries.find(folder + "byteorder"); order != entries.end()) {
    if (text_of(order->second) != "little")
      throw_bad_file(where, kTorchHint, "got byte order '{}', want 'little'", printable(text_of(order->second), 16));
  }
}

// Takes the pickle at the front of `rest`.
Pickle take_pickle(std::span<const std::byte>& rest, std::string_view file, std::string_view part) {
  Pickle pickle = parse_pickle(rest, fmt::format("{}: {}", file, part));
  rest = rest.subspan(pickle.size);
  return pickle;
}

const PickleValue* find_key(const Pickle& pickle, std::string_view key) {
  const PickleValue& top = pickle.top();
  if (top.kind != Kind::dict) return nullptr;
  for (size_t i = 0; i < top.items.size(); i += 2) {
    if (pickle.at(top.items[i]).text == key) return &pickle.at(top.items[i + 1]);
  }
  return nullptr;
}

// The three pickles in front of the older form: its number, its version, and the machine that wrote it.
void take_legacy_header(std::span<const std::byte>& rest, std::string_view where) {
  if (!text_of(rest).starts_with(kLegacyMagic))
    throw_bad_file(where, kTorchHint, "no PyTorch file: neither a zip archive nor torch 1.5's older form");
  rest = rest.subspan(kLegacyMagic.size());
  const Pickle version = take_pickle(rest, where, "version");
  if (version.top().kind != Kind::integer || version.top().integer != kLegacyProtocol)
    throw_bad_file(where, kTorchHint, "got version {}, want {}", version.top().integer, kLegacyProtocol);
  const Pickle machine = take_pickle(rest, where, "machine");
  const PickleValue* little = find_key(machine, "little_endian");
  if (little == nullptr || little->kind != Kind::boolean || little->integer != 1)
    throw_bad_file(where, kTorchHint,
                   "it was written on a big-endian machine or does not say; want little_endian True");
}

// The storages' bytes follow in the order of the list of keys: eight bytes of count, then the elements.
void fill_storages(TorchStorages& storages, const Pickle& keys, std::span<const std::byte> rest,
                   std::string_view where) {
  if (keys.top().kind != Kind::list)
    throw_bad_file(where, kTorchHint, "list of storages: got {}, want a list", name_of(keys.top().kind));
  std::map<std::string_view, bool> seen;
  for (const PickleRef ref : keys.top().items) {
    const std::string_view key = keys.at(ref).text;
    const std::string place = fmt::format("{}: storage '{}'", where, printable(key));
    const auto found = storages.find(key);
    if (found == storages.end()) throw_bad_file(place, kTorchHint, "no tensor names it");
    if (!seen.emplace(key, true).second) throw_bad_file(place, kTorchHint, "it appears twice in the list of storages");
    TorchStorage& storage = found->second;
    const auto size = storage.size();
    if (rest.size() < 8 || !size || *size > rest.size() - 8)
      throw_bad_file(place, kZipHint, "the file is truncated: got {} bytes, want {} of {}", rest.size(),
                     storage.elements, name_of(storage.dtype));
    if (const auto told = load_at<uint64_t>(rest, 0); told != storage.elements)
      throw_bad_file(place, kTorchHint, "got {} elements, want {} as the tensors say", told, storage.elements);
    storage.bytes = rest.subspan(8, *size);
    rest = rest.subspan(8 + *size);
  }
  for (const auto& [key, storage] : storages) {
    if (!seen.contains(key))
      throw_bad_file(where, kZipHint, "storage '{}' is named, but not in the list of storages", printable(key));
  }
  if (!rest.empty()) throw_bad_file(where, kZipHint, "got {} bytes behind the last storage", rest.size());
}

}  // namespace

TensorSet parse_torch_zip(std::span<const std::byte> bytes, std::string_view where, CrcCheck crc) {
  Entries entries;
  for (const ZipEntry& entry : parse_zip(bytes, where, crc)) entries.emplace(entry.name, entry.bytes);
  const std::string folder = find_folder(entries, where);
  check_archive(entries, folder, where);

  auto rest = entries.at(folder + "data.pkl");
  const Pickle pickle = take_pickle(rest, where, "data.pkl");
  if (!rest.empty()) throw_bad_file(where, kTorchHint, "data.pkl: got {} bytes behind the pickle", rest.size());
  const TorchPickle source{.pickle = pickle, .where = where, .form = StorageForm::plain};
  TorchStorages storages = named_storages(source);
  for (auto& [key, storage] : storages) {
    const std::string place = fmt::format("{}: storage '{}'", where, printable(key));
    const auto entry = entries.find(fmt::format("{}data/{}", folder, key));
    if (entry == entries.end()) throw_bad_file(place, kZipHint, "the zip archive has no entry for it");
    if (storage.size() != entry->second.size())
      throw_bad_file(place, kTorchHint, "got {} bytes, want {} of {}", entry->second.size(), storage.elements,
                     name_of(storage.dtype));
    storage.bytes = entry->second;
  }
  return state_dict(source, storages);
}

TensorSet parse_torch_legacy(std::span<const std::byte> bytes, std::string_view where) {
  auto rest = bytes;
  take_legacy_header(rest, where);
  const Pickle object = take_pickle(rest, where, "objects");
  const Pickle keys = take_pickle(rest, where, "list of storages");
  const TorchPickle source{.pickle = object, .where = where, .form = StorageForm::with_view};
  TorchStorages storages = named_storages(source);
  fill_storages(storages, keys, rest, where);
  return state_dict(source, storages);
}

TensorSet parse_torch(std::span<const std::byte> bytes, std::string_view where) {
  const std::string_view text = text_of(bytes);
  if (text.starts_with("version https://git-lfs"))
    throw_bad_file(where, Hint{"fetch the weights with `git lfs pull`"}, "this is a Git LFS pointer, not the file");
  return text.starts_with(kZipMagic) ? parse_torch_zip(bytes, where) : parse_torch_legacy(bytes, where);
}

TensorSet read_torch(const ReadPath& path) {
  auto file = MappedFile::open(path);
  TensorSet set = parse_torch(file->bytes(), path.string());
  set.mapped.push_back(file->bytes());
  set.owners.push_back(std::move(file));
  return set;
}

}  // namespace exeunt
