// SPDX-License-Identifier: Apache-2.0
// Pickles put together opcode by opcode, and the files of PyTorch around them, for tests that need wrong ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/unit/model/zip_builder.h"

namespace exeunt::pickled {

inline const std::string kStart("\x80\x02", 2);

inline std::string text(std::string_view value) {
  return "X" + little(value.size(), 4) + std::string(value);
}
inline std::string number(int64_t value) {
  return "\x8a\x08" + little(static_cast<uint64_t>(value), 8);
}
inline std::string name(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}
inline std::string tuple(const std::vector<std::string>& items) {
  std::string out = "(";
  for (const std::string& item : items) out += item;
  return out + "t";
}
inline std::string call(const std::string& function, const std::vector<std::string>& arguments) {
  return function + tuple(arguments) + "R";
}
inline std::string dict(const std::vector<std::string>& items) {
  std::string out = "}(";
  for (const std::string& item : items) out += item;
  return out + "u";
}
inline std::string numbers(const std::vector<int64_t>& values) {
  std::vector<std::string> items;
  for (const int64_t value : values) items.push_back(number(value));
  return tuple(items);
}

// A description of storage `key`; `view` is the sixth part of the older form.
struct StorageText {
  std::string key = "0";
  int64_t elements = 6;
  std::string type = "FloatStorage";
  std::string view = {};
};
inline std::string storage(const StorageText& it = {}) {
  std::vector<std::string> items{text("storage"), name("torch", it.type), text(it.key), text("cpu"),
                                 number(it.elements)};
  if (!it.view.empty()) items.push_back(it.view);
  return tuple(items) + "Q";
}
struct TensorText {
  std::string storage = pickled::storage();
  int64_t offset = 0;
  std::vector<int64_t> shape = {2, 3}, strides = {3, 1};
};
inline std::string tensor(const TensorText& it = {}) {
  return call(name("torch._utils", "_rebuild_tensor_v2"),
              {it.storage, number(it.offset), numbers(it.shape), numbers(it.strides), "\x89", "}"});
}
inline std::string state_dict(const std::string& weight) {
  return dict({text("w"), weight});
}

// `body` as a whole pickle.
inline std::string pickle(const std::string& body) {
  return kStart + body + ".";
}

// A file of the zip form around the pickle, with one storage of 24 bytes.
inline std::string zip_file(const std::string& pickle, std::vector<ZipPart> more = {}) {
  std::vector<ZipPart> parts{{.name = "archive/data.pkl", .data = pickle},
                             {.name = "archive/data/0", .data = std::string(24, '\1')}};
  parts.insert(parts.end(), more.begin(), more.end());
  return build_zip(parts);
}

// A file of the older form around the pickle, with the keys and the storages given.
struct LegacyText {
  std::string version = "\x80\x02M\xe9\x03.";
  std::string machine = pickle(dict({text("little_endian"), "\x88"}));
  std::string keys = pickle("]" + text("0") + "a");
  std::string storages = little(6, 8) + std::string(24, '\1');
};
inline std::string legacy_file(const std::string& pickle, const LegacyText& it = {}) {
  return std::string("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15) + it.version + it.machine +
         pickle + it.keys + it.storages;
}

}  // namespace exeunt::pickled
