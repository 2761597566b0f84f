// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/torch_file.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "exeunt/base/checked.h"
#include "exeunt/base/error.h"
#include "exeunt/model/bytes.h"
#include "exeunt/model/zip_reader.h"

namespace exeunt {
namespace {

using Kind = PickleValue::Kind;
using Role = PickleName::Role;

constexpr size_t kMaxTensors = 100'000, kMaxName = 512, kMaxRank = 8;

// Where a state dict may hide inside a larger checkpoint, in order of preference.
constexpr std::array<std::string_view, 3> kWrappers{"state_dict", "model_state_dict", "model"};

// A stretch of a storage; all of it unless the file says that it is a view.
struct Stretch {
  std::string_view key;
  TorchStorage storage;
  uint64_t begin, elements;
};

// A whole number from 0 on, or an error.
uint64_t count_of(const PickleValue& value, std::string_view where, std::string_view what) {
  if (value.kind != Kind::integer) throw_bad_file(where, "{}: got {}, want a whole number", what, name_of(value.kind));
  if (value.integer < 0) throw_bad_file(where, "{}: got {}, want 0 or more", what, value.integer);
  return static_cast<uint64_t>(value.integer);
}

std::vector<int64_t> counts_of(const Pickle& pickle, PickleRef ref, std::string_view where, std::string_view what) {
  const PickleValue& tuple = pickle.at(ref);
  if (tuple.kind != Kind::tuple)
    throw_bad_file(where, "{}: got {}, want a tuple of whole numbers", what, name_of(tuple.kind));
  if (tuple.items.size() > kMaxRank)
    throw_bad_file(where, "{}: got {} numbers, want at most {}", what, tuple.items.size(), kMaxRank);
  std::vector<int64_t> counts;
  for (const PickleRef item : tuple.items)
    counts.push_back(static_cast<int64_t>(count_of(pickle.at(item), where, what)));
  return counts;
}

Stretch stretch_of(const TorchPickle& source, const PickleValue& stored, std::string_view where) {
  const Pickle& pickle = source.pickle;
  const PickleValue& id = pickle.at(stored.items.front());
  const size_t parts = source.form == StorageForm::with_view ? 6 : 5;
  if (id.kind != Kind::tuple || id.items.size() != parts || pickle.at(id.items[0]).text != "storage")
    throw_bad_file(where, "it stores something other than tensors, want ('storage', type, key, …)");
  const PickleValue &type = pickle.at(id.items[1]), &key = pickle.at(id.items[2]);
  if (type.kind != Kind::name || type.name->role != Role::storage)
    throw_bad_file(where, "a storage's type: got {}, want torch.FloatStorage or the like", name_of(type.kind));
  if (key.kind != Kind::text || key.text.empty())
    throw_bad_file(where, "a storage's key: got {}, want a string", name_of(key.kind));

  const uint64_t elements = count_of(pickle.at(id.items[4]), where, "a storage's size");
  Stretch stretch{
      .key = key.text, .storage = {.dtype = *type.name->dtype, .elements = elements}, .begin = 0, .elements = elements};
  if (parts == 5 || pickle.at(id.items[5]).kind == Kind::none) return stretch;
  const PickleValue& view = pickle.at(id.items[5]);
  if (view.kind != Kind::tuple || view.items.size() != 3)
    throw_bad_file(where, "storage '{}': got a view of {} parts, want (key, offset, size)", printable(key.text),
                   view.items.size());
  stretch.begin = count_of(pickle.at(view.items[1]), where, "the offset of a storage's view");
  stretch.elements = count_of(pickle.at(view.items[2]), where, "the size of a storage's view");
  if (!range_fits(stretch.begin, stretch.elements, elements))
    throw_bad_file(where, "storage '{}': got a view of {} elements from {}, want it within {}", printable(key.text),
                   stretch.elements, stretch.begin, elements);
  return stretch;
}

// How many elements of the storage a strided tensor spans; nothing if that does not fit in 64 bits.
std::optional<uint64_t> reach_of(const TensorView& view) {
  uint64_t reach = 1;
  for (size_t axis = 0; axis < view.shape.size(); ++axis) {
    const auto steps =
        checked_mul(static_cast<uint64_t>(view.shape[axis] - 1), static_cast<uint64_t>(view.strides[axis]));
    const auto sum = steps ? checked_add(reach, *steps) : std::nullopt;
    if (!sum) return std::nullopt;
    reach = *sum;
  }
  return reach;
}

// The view that a call of _rebuild_tensor or _rebuild_tensor_v2 would have made.
TensorView tensor_of(const TorchPickle& source, const TorchStorages& storages, const PickleValue& call,
                     std::string_view where) {
  const Pickle& pickle = source.pickle;
  const size_t parts = call.items.size();  // v2: requires_grad, hooks and, of late, metadata follow
  const bool fits = call.name->role == Role::rebuild_tensor ? parts == 4 : parts == 6 || parts == 7;
  if (!fits || pickle.at(call.items[0]).kind != Kind::stored)
    throw_bad_file(where, "{} does not get a storage, offset, size and stride", call.name->name);
  const Stretch stretch = stretch_of(source, pickle.at(call.items[0]), where);
  const uint64_t offset = count_of(pickle.at(call.items[1]), where, "offset");
  TensorView view{.dtype = stretch.storage.dtype,
                  .shape = counts_of(pickle, call.items[2], where, "size"),
                  .strides = counts_of(pickle, call.items[3], where, "stride"),
                  .bytes = {}};
  if (view.shape.size() != view.strides.size())
    throw_bad_file(where, "got {} strides for shape {}, want one per side", view.strides.size(),
                   shape_text(view.shape));

  const auto elements = checked_elements(view.shape);
  const auto reach = elements == uint64_t{0} ? uint64_t{0} : reach_of(view);
  if (!elements || !reach || !range_fits(offset, *reach, stretch.elements))
    throw_bad_file(where, "shape {}, stride {} from {} does not fit in a storage of {} elements",
                   shape_text(view.shape), shape_text(view.strides), offset, stretch.elements);
  if (*elements > stretch.elements)
    throw_bad_file(where, Hint{"save it as x.contiguous()"}, "shape {} repeats the {} elements of its storage",
                   shape_text(view.shape), stretch.elements);
  const TorchStorage& storage = storages.at(stretch.key);
  const size_t size = size_of(view.dtype);
  view.bytes = storage.bytes.subspan((stretch.begin + offset) * size, *reach * size);
  if (*elements == 0 || view.contiguous()) view.strides.clear();
  return view;
}

// A parameter is a tensor with a flag and hooks around it.
const PickleValue& unwrap(const Pickle& pickle, const PickleValue& call, std::string_view where) {
  if (call.name->role != Role::rebuild_parameter) return call;
  const bool fits = call.items.size() == 3 && pickle.at(call.items[0]).kind == Kind::call &&
                    pickle.at(call.items[0]).name->role != Role::rebuild_parameter;
  if (!fits) throw_bad_file(where, "_rebuild_parameter does not get a tensor, a flag and hooks");
  return pickle.at(call.items[0]);
}

bool holds_tensors(const Pickle& pickle, const PickleValue& dict) {
  for (size_t i = 1; i < dict.items.size(); i += 2) {
    if (pickle.at(dict.items[i]).kind == Kind::call) return true;
  }
  return false;
}

// The dict itself if it holds tensors, else the one under a usual name.
const PickleValue& find_state_dict(const TorchPickle& source) {
  const Pickle& pickle = source.pickle;
  const PickleValue& top = pickle.top();
  if (top.kind != Kind::dict) throw_bad_file(source.where, "got {}, want a dict of tensors", name_of(top.kind));
  if (holds_tensors(pickle, top)) return top;
  std::string keys;
  for (const std::string_view wrapper : kWrappers) {
    for (size_t i = 0; i < top.items.size(); i += 2) {
      const PickleValue &key = pickle.at(top.items[i]), &value = pickle.at(top.items[i + 1]);
      if (key.text == wrapper && value.kind == Kind::dict && holds_tensors(pickle, value)) return value;
      if (wrapper == kWrappers[0] && key.kind == Kind::text && i < 12)
        keys += fmt::format(" '{}'", printable(key.text));
    }
  }
  throw_bad_file(source.where, "it holds no tensors: got a dict of {} keys{}", top.items.size() / 2,
                 keys.empty() ? "" : ":" + keys);
}

// Tensors may share storages, as tied weights do, but what is copied from a file must stay in proportion to its size.
void check_sharing(const TensorSet& set, const TorchStorages& storages, std::string_view where) {
  constexpr uint64_t kMaxShare = 4, kSmall = 1 << 20;
  uint64_t stored = kSmall, named = 0;
  for (const auto& [key, storage] : storages) stored += storage.bytes.size();
  for (const auto& [name, view] : set.tensors) {
    named += static_cast<uint64_t>(view.elements()) * size_of(view.dtype);  // each at most its storage's size
    if (named / kMaxShare > stored) {
      throw_bad_file(where, Hint{"save each tensor as x.clone()"},
                     "its tensors take more than {} times the {} bytes stored", kMaxShare, stored);
    }
  }
}

}  // namespace

std::optional<uint64_t> TorchStorage::size() const noexcept {
  return checked_mul(elements, size_of(dtype));
}

TorchStorages named_storages(const TorchPickle& source) {
  TorchStorages storages;
  for (const PickleValue& value : source.pickle.values) {
    if (value.kind != Kind::stored) continue;
    const Stretch stretch = stretch_of(source, value, source.where);
    const auto [place, added] = storages.emplace(stretch.key, stretch.storage);
    if (!added && (place->second.dtype != stretch.storage.dtype || place->second.elements != stretch.storage.elements))
      throw_bad_file(source.where, "storage '{}': got it as {} of {} and as {} of {}", printable(stretch.key),
                     place->second.elements, name_of(place->second.dtype), stretch.storage.elements,
                     name_of(stretch.storage.dtype));
  }
  return storages;
}

TensorSet state_dict(const TorchPickle& source, const TorchStorages& storages) {
  const Pickle& pickle = source.pickle;
  const PickleValue& dict = find_state_dict(source);
  TensorSet set;
  for (size_t i = 0; i < dict.items.size(); i += 2) {
    const PickleValue &key = pickle.at(dict.items[i]), &value = pickle.at(dict.items[i + 1]);
    if (value.kind != Kind::call) continue;  // a note beside the weights
    if (key.kind != Kind::text || key.text.empty() || key.text.size() > kMaxName)
      throw_bad_file(source.where, "got a tensor under {} of {} bytes, want a name of 1 to {}", name_of(key.kind),
                     key.text.size(), kMaxName);
    const std::string where = fmt::format("{}: tensor '{}'", source.where, printable(key.text));
    TensorView view = tensor_of(source, storages, unwrap(pickle, value, where), where);
    if (!set.tensors.emplace(key.text, std::move(view)).second) throw_bad_file(where, "it appears twice");
    if (set.tensors.size() > kMaxTensors) throw_bad_file(source.where, "more than {} tensors", kMaxTensors);
  }
  check_sharing(set, storages, source.where);
  const std::string elsewhere = fmt::format("{}: a tensor that is not used", source.where);
  for (const PickleValue& value : pickle.values) {
    if (value.kind == Kind::call) (void)tensor_of(source, storages, unwrap(pickle, value, elsewhere), elsewhere);
  }
  return set;
}

namespace {

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
    if (!folder.empty()) throw_bad_file(where, "the zip archive holds more than one data.pkl");
    folder = name.substr(0, name.size() - kPickle.size() + 1);
  }
  if (folder.empty()) throw_bad_file(where, "the zip archive holds no data.pkl: PyTorch did not write it");
  return folder;
}

void check_archive(const Entries& entries, const std::string& folder, std::string_view where) {
  const auto stray = std::ranges::find_if(entries, [&](const auto& entry) { return !entry.first.starts_with(folder); });
  if (stray != entries.end())
    throw_bad_file(where, "entry '{}' lies outside the folder '{}'", printable(stray->first), folder);
  if (entries.contains(folder + "constants.pkl"))
    throw_bad_file(where, "this is a TorchScript program, want a state dict");
  if (const auto order = entries.find(folder + "byteorder"); order != entries.end()) {
    if (text_of(order->second) != "little")
      throw_bad_file(where, "got byte order '{}', want 'little'", printable(text_of(order->second), 16));
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
    throw_bad_file(where, "no PyTorch file: neither a zip archive nor torch 1.5's older form");
  rest = rest.subspan(kLegacyMagic.size());
  const Pickle version = take_pickle(rest, where, "version");
  if (version.top().kind != Kind::integer || version.top().integer != kLegacyProtocol)
    throw_bad_file(where, "got version {}, want {}", version.top().integer, kLegacyProtocol);
  const Pickle machine = take_pickle(rest, where, "machine");
  const PickleValue* little = find_key(machine, "little_endian");
  if (little == nullptr || little->kind != Kind::boolean || little->integer != 1)
    throw_bad_file(where, "it was written on a big-endian machine or does not say; want little_endian True");
}

// The storages' bytes follow in the order of the list of keys: eight bytes of count, then the elements.
void fill_storages(TorchStorages& storages, const Pickle& keys, std::span<const std::byte> rest,
                   std::string_view where) {
  if (keys.top().kind != Kind::list)
    throw_bad_file(where, "list of storages: got {}, want a list", name_of(keys.top().kind));
  std::map<std::string_view, bool> seen;
  for (const PickleRef ref : keys.top().items) {
    const std::string_view key = keys.at(ref).text;
    const std::string place = fmt::format("{}: storage '{}'", where, printable(key));
    const auto found = storages.find(key);
    if (found == storages.end()) throw_bad_file(place, "no tensor names it");
    if (!seen.emplace(key, true).second) throw_bad_file(place, "it appears twice in the list of storages");
    TorchStorage& storage = found->second;
    const auto size = storage.size();
    if (rest.size() < 8 || !size || *size > rest.size() - 8)
      throw_bad_file(place, kZipHint, "the file is truncated: got {} bytes, want {} of {}", rest.size(),
                     storage.elements, name_of(storage.dtype));
    if (const auto stated = load_at<uint64_t>(rest, 0); stated != storage.elements)
      throw_bad_file(place, "got {} elements, want {} as the tensors say", stated, storage.elements);
    storage.bytes = rest.subspan(8, *size);
    rest = rest.subspan(8 + *size);
  }
  for (const auto& [key, storage] : storages) {
    if (!seen.contains(key))
      throw_bad_file(where, kZipHint, "storage '{}' is named, but not in the list of storages", printable(key));
  }
  if (!rest.empty()) throw_bad_file(where, kZipHint, "got {} bytes behind the last storage", rest.size());
}

TensorSet read_zip(std::span<const std::byte> bytes, std::string_view where, CrcCheck crc) {
  Entries entries;
  for (const ZipEntry& entry : parse_zip(bytes, where, crc)) entries.emplace(entry.name, entry.bytes);
  const std::string folder = find_folder(entries, where);
  check_archive(entries, folder, where);

  auto rest = entries.at(folder + "data.pkl");
  const Pickle pickle = take_pickle(rest, where, "data.pkl");
  if (!rest.empty()) throw_bad_file(where, "data.pkl: got {} bytes behind the pickle", rest.size());
  const TorchPickle source{.pickle = pickle, .where = where, .form = StorageForm::plain};
  TorchStorages storages = named_storages(source);
  for (auto& [key, storage] : storages) {
    const std::string place = fmt::format("{}: storage '{}'", where, printable(key));
    const auto entry = entries.find(fmt::format("{}data/{}", folder, key));
    if (entry == entries.end()) throw_bad_file(place, kZipHint, "the zip archive has no entry for it");
    if (storage.size() != entry->second.size())
      throw_bad_file(place, "got {} bytes, want {} of {}", entry->second.size(), storage.elements,
                     name_of(storage.dtype));
    storage.bytes = entry->second;
  }
  return state_dict(source, storages);
}

TensorSet read_legacy(std::span<const std::byte> bytes, std::string_view where) {
  auto rest = bytes;
  take_legacy_header(rest, where);
  const Pickle object = take_pickle(rest, where, "objects");
  const Pickle keys = take_pickle(rest, where, "list of storages");
  const TorchPickle source{.pickle = object, .where = where, .form = StorageForm::with_view};
  TorchStorages storages = named_storages(source);
  fill_storages(storages, keys, rest, where);
  return state_dict(source, storages);
}

}  // namespace

TensorSet parse_torch_zip(std::span<const std::byte> bytes, std::string_view where, CrcCheck crc) {
  return with_hint(kSaveWeights, [&] { return read_zip(bytes, where, crc); });
}

TensorSet parse_torch_legacy(std::span<const std::byte> bytes, std::string_view where) {
  return with_hint(kSaveWeights, [&] { return read_legacy(bytes, where); });
}

TensorSet parse_torch(std::span<const std::byte> bytes, std::string_view where) {
  return text_of(bytes).starts_with(kZipMagic) ? parse_torch_zip(bytes, where) : parse_torch_legacy(bytes, where);
}

TensorSet read_torch(const ReadPath& path) {
  auto file = MappedFile::open(path);
  TensorSet set = parse_torch(file->bytes(), path.string());
  set.mapped.push_back(file->bytes());
  set.owners.push_back(std::move(file));
  return set;
}

}  // namespace exeunt
