// SPDX-License-Identifier: Apache-2.0
#include "lab/papers/npy.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/checked.h"
#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/base/json.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMaxHeader = 65'536;
constexpr size_t kMaxRank = 8;

struct NpyHeader {
  std::string descr;
  bool fortran = false;
  std::vector<int64_t> shape;
};

// A header is one Python literal, {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, and is read as JSON.
NpyHeader read_header(std::string_view text, const std::string& where) {
  std::string json;
  for (const char c : text) {
    if (c == '}' || c == ')') {  // no comma behind the last item
      json.erase(json.find_last_not_of(" \n") + 1);
      if (json.ends_with(',')) json.pop_back();
    }
    json += c == '\'' ? '"' : c == '(' ? '[' : c == ')' ? ']' : c;
    if (json.ends_with("False")) json.replace(json.size() - 5, 5, "false");
    if (json.ends_with("True")) json.replace(json.size() - 4, 4, "true");
  }
  const Json literal = parse_json(json, where + ": header");
  JsonObject fields(literal, where + ": header");
  if (fields.get("descr").is_array()) throw_bad_file(where, "got a structured array, want plain numbers");
  NpyHeader header{.descr = fields.string("descr"), .shape = {}};
  const Json& order = fields.get("fortran_order");
  if (!order.is_boolean()) fields.fail("fortran_order", glimpse(order), "True or False");
  header.fortran = order.get<bool>();
  const Json& sides = fields.get("shape");
  const bool whole =
      sides.is_array() && sides.size() <= kMaxRank && std::all_of(sides.begin(), sides.end(), [](const Json& side) {
        return side.is_number_unsigned() && side.get<uint64_t>() <= INT64_MAX;
      });
  if (!whole) fields.fail("shape", glimpse(sides), fmt::format("at most {} sizes", kMaxRank));
  for (const Json& side : sides) header.shape.push_back(side.get<int64_t>());
  fields.finish();
  return header;
}

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

std::string to_text(double value, std::chars_format format) {
  char buffer[512];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value, format);
  check(error == std::errc(), "a double fits in 512 characters");
  return {buffer, end};
}

}  // namespace

std::string python_float(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const double size = std::abs(value);
  // Python writes an exponent below 1e-4 and from 1e16 on.
  if (size != 0 && (size < 1e-4 || size >= 1e16)) return to_text(value, std::chars_format::scientific);
  std::string text = to_text(value, std::chars_format::fixed);
  return text.find('.') == std::string::npos ? text + ".0" : text;
}

std::string python_dict(const std::map<int, int64_t>& values) {
  std::string text = "{";
  for (const auto& [key, value] : values) text += fmt::format("{}{}: {}", text.size() > 1 ? ", " : "", key, value);
  return text + "}";
}

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

  const NpyHeader header =
      read_header({reinterpret_cast<const char*>(bytes.data()) + fixed, length}, std::string(where));
  TensorView view{.dtype = type_of(header.descr, where), .shape = header.shape, .strides = {}, .bytes = {}};
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
  if (header.fortran && view.shape.size() > 1) {
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
  std::vector<double> values(static_cast<size_t>(view.elements()));
  if (view.dtype == DType::f16 || view.dtype == DType::f32 || view.dtype == DType::bf16) {
    const std::vector<float> floats = to_floats(view);
    std::copy(floats.begin(), floats.end(), values.begin());
    return values;
  }
  const size_t size = size_of(view.dtype);
  std::vector<std::byte> raw(values.size() * size);
  copy_raw(view, raw);
  const auto convert = [&]<class Number>(Number) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>(load<Number>(std::span<const std::byte>(raw).subspan(i * size, size)));
  };
  if (view.dtype == DType::f64) {
    convert(double{});
  } else if (view.dtype == DType::i64) {
    convert(int64_t{});
  } else if (view.dtype == DType::i32) {
    convert(int32_t{});
  } else if (view.dtype == DType::i16) {
    convert(int16_t{});
  } else if (view.dtype == DType::i8) {
    convert(int8_t{});
  } else {
    convert(uint8_t{});
  }
  return values;
}

void create_folders(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw Error(Code::resources, fmt::format("{}: cannot create folder: {}", folder.string(), error.message()));
}

void write_npy(const std::filesystem::path& path, std::span<const double> values, std::vector<int64_t> shape) {
  check(checked_elements(shape) == values.size(), "an array has as many values as its shape says");
  AtomicFile file(path);
  file.write(npy_header("<f8", shape));
  file.write(std::as_bytes(values));
  file.commit();
}

void write_deebert_npy(const std::filesystem::path& path, const DeebertRun& run) {
  // An ndarray pickles as _reconstruct(ndarray, (0,), 'b') whose state is (1, shape, dtype, fortran, items); in
  // protocol 0 that is text.
  std::string pickle =
      "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"
      "(I1\n(I4\ntcnumpy\ndtype\n(S'O'\nI00\nI01\ntRI00\n((";
  for (const auto& [layer, texts] : run.exits) pickle += fmt::format("I{}\nI{}\n", layer, texts);
  pickle += fmt::format("dF{}\nF{}\nF{}\nltb.", python_float(run.seconds), python_float(run.cost_fraction),
                        python_float(run.score));
  AtomicFile file(path);
  file.write(npy_header("|O", std::vector<int64_t>{4}));
  file.write(pickle);
  file.commit();
}

}  // namespace exeunt
