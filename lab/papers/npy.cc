// SPDX-License-Identifier: Apache-2.0
#include "lab/papers/npy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/checked.h"
#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/number.h"
#include "exeunt/policy/policy_text.h"
#include "lab/papers/python.h"

namespace exeunt {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMaxHeader = 65'536;
constexpr size_t kMaxRank = 8;

// Reads the one Python literal an .npy header is: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class HeaderReader {
 public:
  HeaderReader(std::string_view text, std::string_view where) : text_(text), where_(where) {}

  void read() {
    want('{');
    while (!take('}')) {
      const std::string key(quoted());
      want(':');
      if (key == "descr" && descr.empty()) {
        descr = descriptor();
      } else if (key == "fortran_order" && !fortran) {
        fortran = boolean();
      } else if (key == "shape" && !shape) {
        shape = sizes();
      } else {
        fail(fmt::format("the field '{}'", key.substr(0, 32)));
      }
      if (!take(',')) {
        want('}');
        break;
      }
    }
    skip_space();
    if (at_ != text_.size()) fail("text after the dictionary");
    if (descr.empty() || !fortran || !shape) fail("no 'descr', 'fortran_order' or 'shape'");
  }

  std::string descr;
  std::optional<bool> fortran;
  std::optional<std::vector<int64_t>> shape;

 private:
  [[noreturn]] void fail(std::string_view got) const {
    throw_bad_file(where_, "got {} in the header at byte {}, want a NumPy array header", got, at_);
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(char mark) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != mark) return false;
    ++at_;
    return true;
  }
  void want(char mark) {
    if (!take(mark)) fail(fmt::format("no '{}'", mark));
  }
  std::string_view quoted() {
    skip_space();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) fail("no quoted text");
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) fail("an open quote");
    const std::string_view inside = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return inside;
  }
  std::string descriptor() {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[') throw_bad_file(where_, "got a structured array, want plain numbers");
    return std::string(quoted());
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair{std::string_view("True"), true}, {std::string_view("False"), false}}) {
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return value;
    }
    fail("no True or False");
  }
  std::vector<int64_t> sizes() {
    std::vector<int64_t> sides;
    want('(');
    while (!take(')')) {
      skip_space();
      size_t end = at_;
      while (end < text_.size() && text_[end] >= '0' && text_[end] <= '9') ++end;
      const auto side = number_of<int64_t>(text_.substr(at_, end - at_));
      if (!side || sides.size() >= kMaxRank) fail("no size");
      sides.push_back(*side);
      at_ = end;
      if (!take(',')) {
        want(')');
        break;
      }
    }
    return sides;
  }

  std::string_view text_, where_;
  size_t at_ = 0;
};

DType type_of(const std::string& descr, std::string_view where) {
  const Hint hint{"save it as float32: np.save(path, array.astype('<f4'))"};
  if (descr == "|O" || descr == "O") throw_bad_file(where, hint, "got an array of Python objects, want numbers");
  constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"f8", DType::f64}, {"f4", DType::f32}, {"f2", DType::f16}, {"i8", DType::i64},    {"i4", DType::i32},
      {"i2", DType::i16}, {"i1", DType::i8},  {"u1", DType::u8},  {"b1", DType::boolean}};
  const bool little = !descr.empty() && (descr[0] == '<' || descr[0] == '|' || descr[0] == '=');
  const std::string_view name = std::string_view(descr).substr(descr.empty() ? 0 : 1);
  for (const auto& [known, type] : kTypes)
    if (little && name == known) return type;
  throw_bad_file(where, hint, "got elements of type '{}', want <f4, <f8, <f2, whole numbers or booleans",
                 descr.substr(0, 32));
}

template <class Number>
Number load(std::span<const std::byte> from) {
  Number value;
  std::memcpy(&value, from.data(), sizeof value);
  return value;
}

// Magic, version, length and the dictionary, padded with spaces so that the data start on a multiple of 64.
std::string npy_header(std::string_view descr, std::span<const int64_t> shape) {
  const std::string sides = fmt::format("{}{}", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");  // (3,)
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, sides);
  const size_t unpadded = kMagic.size() + 4 + text.size() + 1;
  text.append((64 - unpadded % 64) % 64, ' ');
  text += '\n';
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace

TensorView parse_npy(std::span<const std::byte> bytes, std::string_view where) {
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), std::min<size_t>(bytes.size(), 6));
  if (bytes.size() < 10 || start != kMagic) throw_bad_file(where, "does not start as an .npy file");
  const int version = static_cast<int>(bytes[6]);
  if (version < 1 || version > 3) throw_bad_file(where, "got .npy version {}, want 1, 2 or 3", version);
  const size_t fixed = version == 1 ? 10 : 12;
  if (bytes.size() < fixed) throw_bad_file(where, "is cut short in its header");
  const size_t length = version == 1 ? load<uint16_t>(bytes.subspan(8)) : load<uint32_t>(bytes.subspan(8));
  if (length > kMaxHeader) throw_bad_file(where, "got a header of {} bytes, want at most {}", length, kMaxHeader);
  if (length > bytes.size() - fixed) throw_bad_file(where, "is cut short in its header");

  HeaderReader header({reinterpret_cast<const char*>(bytes.data()) + fixed, length}, where);
  header.read();
  TensorView view{.dtype = type_of(header.descr, where), .shape = *header.shape, .strides = {}, .bytes = {}};
  view.bytes = bytes.subspan(fixed + length);
  // Sizes whose product overflows are refused even where a zero among them leaves nothing to read.
  std::vector<int64_t> sides = view.shape;
  std::replace(sides.begin(), sides.end(), int64_t{0}, int64_t{1});
  const auto most = checked_elements(sides);
  const auto elements = most && *most <= INT64_MAX ? checked_elements(view.shape) : std::nullopt;
  const auto wanted = elements ? checked_mul(*elements, size_of(view.dtype)) : std::nullopt;
  if (!wanted || *wanted != view.bytes.size()) {
    throw_bad_file(where, "got {} bytes of data, want those of shape {} of '{}'", view.bytes.size(),
                   shape_text(view.shape), header.descr);
  }
  if (*header.fortran && view.shape.size() > 1) {
    int64_t stride = 1;
    for (const int64_t side : view.shape) {
      view.strides.push_back(stride);
      stride *= side;
    }
  }
  return view;
}

NpyArray read_npy(const std::filesystem::path& path) {
  auto file = MappedFile::open(path);
  NpyArray array{parse_npy(file->bytes(), path.string()), nullptr};
  array.owner = std::move(file);
  return array;
}

std::vector<double> to_doubles(const TensorView& view) {
  const size_t size = size_of(view.dtype);
  const auto count = static_cast<size_t>(view.elements());
  std::vector<double> values(count);
  if (view.dtype == DType::f16 || view.dtype == DType::f32 || view.dtype == DType::bf16) {
    const std::vector<float> floats = to_floats(view);
    std::copy(floats.begin(), floats.end(), values.begin());
    return values;
  }
  std::vector<std::byte> raw(count * size);
  copy_raw(view, raw);
  for (size_t i = 0; i < count; ++i) {
    const auto from = std::span<const std::byte>(raw).subspan(i * size, size);
    switch (view.dtype) {
      case DType::f64:
        values[i] = load<double>(from);
        break;
      case DType::i64:
        values[i] = static_cast<double>(load<int64_t>(from));
        break;
      case DType::i32:
        values[i] = load<int32_t>(from);
        break;
      case DType::i16:
        values[i] = load<int16_t>(from);
        break;
      case DType::i8:
        values[i] = load<int8_t>(from);
        break;
      default:
        values[i] = load<uint8_t>(from);
        break;
    }
  }
  return values;
}

void write_npy(const std::filesystem::path& path, std::span<const double> values, std::vector<int64_t> shape) {
  check(checked_elements(shape) == values.size(), "an array has as many values as its shape says");
  AtomicFile file(path);
  file.write(npy_header("<f8", shape));
  file.write(std::as_bytes(values));
  file.commit();
}

void write_deebert_npy(const std::filesystem::path& path, const DeebertRun& run) {
  // An ndarray pickles as _reconstruct(ndarray, (0,), b'b') whose state is (1, shape, dtype, fortran, items).
  PickleWriter pickle;
  pickle.global("numpy.core.multiarray", "_reconstruct");
  pickle.open();
  pickle.global("numpy", "ndarray");
  pickle.open();
  pickle.integer(0);
  pickle.close_tuple();
  pickle.bytes("b");
  pickle.close_tuple();
  pickle.call();
  pickle.open();
  pickle.integer(1);
  pickle.open();
  pickle.integer(4);
  pickle.close_tuple();
  pickle.global("numpy", "dtype");
  pickle.open();
  pickle.text("O");
  pickle.boolean(false);
  pickle.boolean(true);
  pickle.close_tuple();
  pickle.call();
  pickle.boolean(false);
  pickle.empty_list();
  pickle.open();
  pickle.empty_dict();
  pickle.open();
  for (const auto& [layer, texts] : run.exits) {
    pickle.integer(layer);
    pickle.integer(texts);
  }
  pickle.close_dict();
  pickle.real(run.seconds);
  pickle.real(run.cost_fraction);
  pickle.real(run.score);
  pickle.close_list();
  pickle.close_tuple();
  pickle.set_state();
  AtomicFile file(path);
  file.write(npy_header("|O", std::vector<int64_t>{4}));
  file.write(pickle.finish());
  file.commit();
}

}  // namespace exeunt
