// SPDX-License-Identifier: Apache-2.0
// The protocol-buffer wire format, read and written field by field without a schema compiler. SentencePiece models,
// TensorFlow checkpoints and ONNX graphs use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace exeunt {

// Consumes a varint from the front of `rest`; nothing if it is truncated or longer than 64 bits.
[[nodiscard]] std::optional<uint64_t> take_varint(std::span<const std::byte>& rest) noexcept;

struct ProtoField {
  enum class Type : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
  uint32_t number = 0;
  Type type = Type::varint;
  uint64_t value = 0;                // of varint, fixed64 and fixed32
  std::span<const std::byte> bytes;  // of bytes: text, a nested message, a packed list

  [[nodiscard]] std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  [[nodiscard]] int64_t integer() const noexcept { return static_cast<int64_t>(value); }  // int32, int64, enum, bool
  [[nodiscard]] float real() const noexcept;                                              // a float, of fixed32
};

// Iterates over the fields of one message. Malformed bytes are a bad_file Error prefixed by `where`.
class ProtoReader {
 public:
  ProtoReader(std::span<const std::byte> message, std::string where)
      : rest_(message), size_(message.size()), where_(std::move(where)) {}

  // The next field; nothing at the end. The caller skips numbers it does not know.
  [[nodiscard]] std::optional<ProtoField> next();
  // Error unless `field` has the expected wire type.
  void expect(const ProtoField& field, ProtoField::Type type) const;
  [[nodiscard]] const std::string& where() const noexcept { return where_; }

 private:
  std::span<const std::byte> rest_;
  size_t size_;
  std::string where_;
};

// Writes the fields of one message; a nested message is written first and then added as bytes.
class ProtoWriter {
 public:
  void integer(uint32_t number, int64_t value);           // int32, int64, enum, bool
  void real(uint32_t number, float value);                // float
  void bytes(uint32_t number, std::string_view content);  // text, bytes, a nested message
  void message(uint32_t number, const ProtoWriter& nested) { bytes(number, nested.out_); }
  [[nodiscard]] const std::string& content() const noexcept { return out_; }

 private:
  void varint(uint64_t value);
  std::string out_;
};

}  // namespace exeunt
