// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/torch_tensors.h"

#include <array>
#include <optional>
#include <string>

#include "exeunt/base/checked.h"
#include "exeunt/model/bytes.h"

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
  if (value.kind != Kind::integer)
    throw_bad_file(where, kTorchHint, "{}: got {}, want a whole number", what, name_of(value.kind));
  if (value.integer < 0) throw_bad_file(where, kTorchHint, "{}: got {}, want 0 or more", what, value.integer);
  return static_cast<uint64_t>(value.integer);
}

std::vector<int64_t> counts_of(const Pickle& pickle, PickleRef ref, std::string_view where, std::string_view what) {
  const PickleValue& tuple = pickle.at(ref);
  if (tuple.kind != Kind::tuple)
    throw_bad_file(where, kTorchHint, "{}: got {}, want a tuple of whole numbers", what, name_of(tuple.kind));
  if (tuple.items.size() > kMaxRank)
    throw_bad_file(where, kTorchHint, "{}: got {} numbers, want at most {}", what, tuple.items.size(), kMaxRank);
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
    throw_bad_file(where, kTorchHint, "it stores something other than tensors, want ('storage', type, key, …)");
  const PickleValue &type = pickle.at(id.items[1]), &key = pickle.at(id.items[2]);
  if (type.kind != Kind::name || type.name->role != Role::storage)
    throw_bad_file(where, kTorchHint, "a storage's type: got {}, want torch.FloatStorage or the like",
                   name_of(type.kind));
  if (key.kind != Kind::text || key.text.empty())
    throw_bad_file(where, kTorchHint, "a storage's key: got {}, want a string", name_of(key.kind));

  const uint64_t elements = count_of(pickle.at(id.items[4]), where, "a storage's size");
  Stretch stretch{
      .key = key.text, .storage = {.dtype = *type.name->dtype, .elements = elements}, .begin = 0, .elements = elements};
  if (parts == 5 || pickle.at(id.items[5]).kind == Kind::none) return stretch;
  const PickleValue& view = pickle.at(id.items[5]);
  if (view.kind != Kind::tuple || view.items.size() != 3)
    throw_bad_file(where, kTorchHint, "storage '{}': got a view of {} parts, want (key, offset, size)",
                   printable(key.text), view.items.size());
  stretch.begin = count_of(pickle.at(view.items[1]), where, "the offset of a storage's view");
  stretch.elements = count_of(pickle.at(view.items[2]), where, "the size of a storage's view");
  if (!range_fits(stretch.begin, stretch.elements, elements))
    throw_bad_file(where, kTorchHint, "storage '{}': got a view of {} elements from {}, want it within {}",
                   printable(key.text), stretch.elements, stretch.begin, elements);
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
    throw_bad_file(where, kTorchHint, "{} does not get a storage, offset, size and stride", call.name->name);
  const Stretch stretch = stretch_of(source, pickle.at(call.items[0]), where);
  const uint64_t offset = count_of(pickle.at(call.items[1]), where, "offset");
  TensorView view{.dtype = stretch.storage.dtype,
                  .shape = counts_of(pickle, call.items[2], where, "size"),
                  .strides = counts_of(pickle, call.items[3], where, "stride"),
                  .bytes = {}};
  if (view.shape.size() != view.strides.size())
    throw_bad_file(where, kTorchHint, "got {} strides for shape {}, want one per side", view.strides.size(),
                   shape_text(view.shape));

  const auto elements = checked_elements(view.shape);
  const auto reach = elements == uint64_t{0} ? uint64_t{0} : reach_of(view);
  if (!elements || !reach || !range_fits(offset, *reach, stretch.elements))
    throw_bad_file(where, kTorchHint, "shape {}, stride {} from {} does not fit in a storage of {} elements",
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
  if (!fits) throw_bad_file(where, kTorchHint, "_rebuild_parameter does not get a tensor, a flag and hooks");
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
  if (top.kind != Kind::dict)
    throw_bad_file(source.where, kTorchHint, "got {}, want a dict of tensors", name_of(top.kind));
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
  throw_bad_file(source.where, kTorchHint, "it holds no tensors: got a dict of {} keys{}", top.items.size() / 2,
                 keys.empty() ? "" : ":" + keys);
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
      throw_bad_file(source.where, kTorchHint, "storage '{}': got it as {} of {} and as {} of {}",
                     printable(stretch.key), place->second.elements, name_of(place->second.dtype),
                     stretch.storage.elements, name_of(stretch.storage.dtype));
  }
  return storages;
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

TensorSet state_dict(const TorchPickle& source, const TorchStorages& storages) {
  const Pickle& pickle = source.pickle;
  const PickleValue& dict = find_state_dict(source);
  TensorSet set;
  for (size_t i = 0; i < dict.items.size(); i += 2) {
    const PickleValue &key = pickle.at(dict.items[i]), &value = pickle.at(dict.items[i + 1]);
    if (value.kind != Kind::call) continue;  // a note beside the weights
    if (key.kind != Kind::text || key.text.empty() || key.text.size() > kMaxName)
      throw_bad_file(source.where, kTorchHint, "got a tensor under {} of {} bytes, want a name of 1 to {}",
                     name_of(key.kind), key.text.size(), kMaxName);
    const std::string where = fmt::format("{}: tensor '{}'", source.where, printable(key.text));
    TensorView view = tensor_of(source, storages, unwrap(pickle, value, where), where);
    if (!set.tensors.emplace(key.text, std::move(view)).second) throw_bad_file(where, kTorchHint, "it appears twice");
    if (set.tensors.size() > kMaxTensors) throw_bad_file(source.where, kTorchHint, "more than {} tensors", kMaxTensors);
  }
  check_sharing(set, storages, source.where);
  const std::string elsewhere = fmt::format("{}: a tensor that is not used", source.where);
  for (const PickleValue& value : pickle.values) {
    if (value.kind == Kind::call) (void)tensor_of(source, storages, unwrap(pickle, value, elsewhere), elsewhere);
  }
  return set;
}

}  // namespace exeunt
