// SPDX-License-Identifier: Apache-2.0
#include "exeunt/base/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "exeunt/base/checked.h"
#include "exeunt/base/error.h"
#include "exeunt/base/json.h"

namespace exeunt {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor files are little-endian, and so must the machine be");

constexpr uint64_t kMaxHeader = uint64_t{8} << 20;
constexpr size_t kMaxTensors = 50'000;
// A tensor is an object with a dtype, a shape and two offsets.
constexpr size_t kMaxHeaderValues = kMaxTensors * (1 + 1 + (1 + 8) + (1 + 2));
constexpr size_t kMaxName = 512;
constexpr size_t kMaxRank = 8;

struct Extent {
  uint64_t begin, end;
  std::string name;
};

// One entry of the header, checked against the data section.
TensorView read_entry(const Json& value, const std::string& where, std::span<const std::byte> data, Extent& extent) {
  JsonObject entry(value, where);
  const std::string type = entry.string("dtype");
  const auto dtype = dtype_named(type);
  if (!dtype) throw_bad_file(where, "got dtype {}, want one of F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL", type);

  TensorView view{.dtype = *dtype, .shape = {}, .strides = {}, .bytes = {}};
  const Json& shape = entry.get("shape");
  if (!shape.is_array() || shape.size() > kMaxRank) entry.fail("shape", glimpse(shape), "a list of at most 8 sizes");
  for (const Json& side : shape) {
    if (!side.is_number_unsigned() || side.get<uint64_t>() > INT64_MAX)
      entry.fail("shape", glimpse(side), "sizes from 0 on");
    view.shape.push_back(side.get<int64_t>());
  }
  const Json& offsets = entry.get("data_offsets");
  const bool pair =
      offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned() && offsets[1].is_number_unsigned();
  if (!pair) entry.fail("data_offsets", glimpse(offsets), "[begin, end]");
  extent.begin = offsets[0].get<uint64_t>();
  extent.end = offsets[1].get<uint64_t>();
  entry.finish();

  if (extent.begin > extent.end || extent.end > data.size()) {
    throw_bad_file(where, "got data offsets [{}, {}], want them within the file's {} bytes of data", extent.begin,
                   extent.end, data.size());
  }
  const auto elements = checked_elements(view.shape);
  const auto bytes = elements ? checked_mul(*elements, size_of(*dtype)) : std::nullopt;
  if (!bytes || *bytes != extent.end - extent.begin) {
    throw_bad_file(where, "shape {} of {} does not take the {} bytes its offsets give", shape_text(view.shape), type,
                   extent.end - extent.begin);
  }
  view.bytes = data.subspan(extent.begin, extent.end - extent.begin);
  return view;
}

// Sorted by offset, the tensors must cover the data section without gaps.
void check_extents(std::vector<Extent> extents, uint64_t total, std::string_view where) {
  std::ranges::sort(
      extents, [](const Extent& a, const Extent& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  uint64_t reached = 0;
  for (const Extent& extent : extents) {
    if (extent.begin < reached)
      throw_bad_file(where, "tensor '{}' overlaps the one before it at byte {}", extent.name, extent.begin);
    if (extent.begin > reached)
      throw_bad_file(where, "gap of {1} bytes before tensor '{0}'", extent.name, extent.begin - reached);
    reached = extent.end;
  }
  if (reached != total)
    throw_bad_file(where, "got {} bytes of data, want {}: the file is truncated or has trailing data", total, reached);
}

}  // namespace

TensorSet parse_safetensors(std::span<const std::byte> bytes, std::string_view where) {
  uint64_t header_size = 0;
  if (bytes.size() < sizeof header_size)
    throw_bad_file(where, "got {} bytes, want at least 8: no safetensors file", bytes.size());
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  if (header_size > kMaxHeader)
    throw_bad_file(where, "got a header of {} bytes, want at most {}: no safetensors file", header_size, kMaxHeader);
  if (header_size > bytes.size() - 8)
    throw_bad_file(where, "got {} bytes, want {} of header: the file is truncated", bytes.size(), header_size + 8);

  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + 8, header_size);
  if (header.empty() || header.front() != '{')
    throw_bad_file(where, "the header does not start with '{{': no safetensors file");
  // The text stays mapped while it is read, and a list that grows is there twice: its values may take that much less.
  const JsonLimits limits{.values = kMaxHeaderValues, .memory = kMaxJsonMemory - 3 * header.size()};
  const Json parsed = parse_json(header, std::string(where) + ": header", limits);
  const auto data = bytes.subspan(8 + header_size);
  if (parsed.size() > kMaxTensors) throw_bad_file(where, "got {} tensors, want at most {}", parsed.size(), kMaxTensors);

  TensorSet set;
  std::vector<Extent> extents;
  for (const auto& [name, value] : parsed.items()) {
    if (name == "__metadata__") {
      if (!value.is_object()) throw_bad_file(where, "__metadata__: got {}, want an object of strings", glimpse(value));
      for (const auto& [key, text] : value.items()) {
        if (!text.is_string()) throw_bad_file(where, "__metadata__: '{}': got {}, want a string", key, glimpse(text));
        set.metadata.emplace(key, text.get<std::string>());
      }
      continue;
    }
    if (name.empty() || name.size() > kMaxName)
      throw_bad_file(where, "got a tensor name of {} bytes, want 1 to {}", name.size(), kMaxName);
    Extent extent{0, 0, name};
    set.tensors.emplace(name, read_entry(value, fmt::format("{}: tensor '{}'", where, name), data, extent));
    extents.push_back(std::move(extent));
  }
  check_extents(std::move(extents), data.size(), where);
  return set;
}

TensorSet read_safetensors(const ReadPath& path) {
  auto file = MappedFile::open(path);
  TensorSet set = parse_safetensors(file->bytes(), path.string());
  set.mapped.push_back(file->bytes());
  set.owners.push_back(std::move(file));
  return set;
}

namespace {

// A few rows at a time, so that even the largest TensorFlow kernel is not copied as a whole.
void stream_strided(const TensorView& view, const ByteSink& sink) {
  constexpr int64_t kPartBytes = 4 << 20;
  if (view.elements() == 0) return;
  const auto width = static_cast<int64_t>(size_of(view.dtype));
  const int64_t row_bytes = view.elements() / view.shape[0] * width;
  const int64_t rows = std::max<int64_t>(1, kPartBytes / row_bytes);
  std::vector<std::byte> packed;
  TensorView part = view;
  for (int64_t row = 0; row < view.shape[0]; row += rows) {
    part.shape[0] = std::min(rows, view.shape[0] - row);
    part.bytes = view.bytes.subspan(static_cast<size_t>(row * view.strides[0] * width));
    packed.resize(static_cast<size_t>(part.shape[0] * row_bytes));
    copy_raw(part, packed);
    sink(packed);
  }
}

}  // namespace

void stream_safetensors(const std::vector<NamedTensor>& tensors, const Metadata& metadata, const ByteSink& sink) {
  OrderedJson header = OrderedJson::object();
  for (const auto& [key, value] : metadata) header["__metadata__"][key] = value;
  uint64_t offset = 0;
  // With push_back: ordered_json looks keys up linearly, which would be quadratic in the number of tensors.
  std::vector<std::pair<std::string, OrderedJson>> entries;
  for (const auto& [name, view] : tensors) {
    const uint64_t bytes = static_cast<uint64_t>(view.elements()) * size_of(view.dtype);
    entries.emplace_back(name, OrderedJson{{"dtype", std::string(name_of(view.dtype))},
                                           {"shape", view.shape},
                                           {"data_offsets", {offset, offset + bytes}}});
    offset += bytes;
  }
  auto& object = header.get_ref<OrderedJson::object_t&>();
  for (auto& [name, entry] : entries) object.emplace_back(std::move(name), std::move(entry));

  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // data start on a multiple of eight
  const uint64_t size = text.size();
  sink(std::as_bytes(std::span(&size, 1)));
  sink(std::as_bytes(std::span(text)));
  for (const auto& [name, view] : tensors) {
    if (view.contiguous()) {
      sink(view.bytes.first(static_cast<size_t>(view.elements()) * size_of(view.dtype)));
    } else {
      stream_strided(view, sink);
    }
  }
}

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const Metadata& metadata) {
  AtomicFile file(path);
  stream_safetensors(tensors, metadata, [&](std::span<const std::byte> bytes) { file.write(bytes); });
  file.commit();
}

}  // namespace exeunt
