// SPDX-License-Identifier: Apache-2.0
// An ONNX graph, built operation by operation and written as onnx.proto (IR version 8, opset 17). The weights are in
// one separate file, which several graphs may share.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "exeunt/base/files.h"
#include "exeunt/base/protobuf.h"
#include "exeunt/base/tensor.h"

namespace exeunt {

inline constexpr int kOnnxOpset = 17, kOnnxIrVersion = 8;

// The position of a tensor in the weights file.
struct OnnxPlace {
  std::vector<int64_t> shape = {};
  uint64_t offset = 0, bytes = 0;
};

// The weights file: fp32, each tensor written on first use.
class OnnxWeights {
 public:
  explicit OnnxWeights(const std::filesystem::path& path) : file_(path), name_(path.filename().string()) {}

  [[nodiscard]] OnnxPlace place(const std::string& name, const TensorView& tensor);
  [[nodiscard]] const std::string& file_name() const noexcept { return name_; }
  void commit() { file_.commit(); }

 private:
  AtomicFile file_;
  std::string name_;
  uint64_t size_ = 0;
  std::map<std::string, OnnxPlace, std::less<>> places_ = {};
};

enum class OnnxType : uint8_t { real = 1, integer = 7 };  // onnx.proto's FLOAT and INT64

// A dimension of an input or output: a number, or a name if it varies.
using OnnxSide = std::variant<int64_t, std::string>;

struct OnnxAttribute {
  std::string name;
  std::variant<int64_t, float, std::vector<int64_t>> value;
};

class OnnxGraph {
 public:
  explicit OnnxGraph(std::string name) : name_(std::move(name)) {}

  void input(const std::string& name, OnnxType type, const std::vector<OnnxSide>& sides);
  void output(const std::string& name, OnnxType type, const std::vector<OnnxSide>& sides);

  // Each returns the name of its value. Equal constants and weights share one.
  std::string op(const std::string& type, const std::vector<std::string>& inputs,
                 const std::vector<OnnxAttribute>& attributes = {});
  std::string integers(const std::vector<int64_t>& values);  // a list
  std::string integer(int64_t value);                        // a scalar
  std::string real(float value);                             // a scalar
  std::string weight(const std::string& name, const TensorView& tensor, OnnxWeights& weights);
  // Gives a value the name of an output.
  void name_value(const std::string& value, const std::string& name) { (void)node("Identity", {value}, {}, name); }

  void note(const std::string& key, const std::string& value);  // metadata
  [[nodiscard]] std::string bytes() const;                      // of the file

 private:
  std::string node(const std::string& type, const std::vector<std::string>& inputs,
                   const std::vector<OnnxAttribute>& attributes, std::string output);
  void constant(const std::string& name, OnnxType type, const std::vector<int64_t>& shape, std::string_view raw);
  bool is_new(const std::string& name) { return known_.emplace(name, true).second; }

  std::string name_;
  ProtoWriter nodes_ = {}, tensors_ = {}, values_ = {}, notes_ = {};
  std::map<std::string, bool, std::less<>> known_ = {};
  int count_ = 0;
};

}  // namespace exeunt
