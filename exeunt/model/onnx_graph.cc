// SPDX-License-Identifier: Apache-2.0
#include "exeunt/model/onnx_graph.h"

#include <span>

#include <fmt/ranges.h>

#include "exeunt/base/version.h"

namespace exeunt {
namespace {

constexpr uint64_t kAlignment = 64;  // of a tensor in the file: what vector loads like best

// Field numbers of onnx.proto.
namespace model_field {
constexpr uint32_t ir_version = 1, producer = 2, producer_version = 3, graph = 7, opset = 8, metadata = 14;
}
namespace graph_field {
constexpr uint32_t node = 1, name = 2, initializer = 5, input = 11, output = 12;
}
namespace node_field {
constexpr uint32_t input = 1, output = 2, name = 3, type = 4, attribute = 5;
}
namespace attribute_field {
constexpr uint32_t name = 1, real = 2, integer = 3, integers = 8, type = 20;
}
namespace tensor_field {
constexpr uint32_t dims = 1, type = 2, name = 8, raw = 9, external = 13, location = 14;
}

ProtoWriter entry(const std::string& key, const std::string& value) {
  ProtoWriter out;
  out.bytes(1, key);
  out.bytes(2, value);
  return out;
}

// ValueInfoProto: name, and type → tensor → element type and shape → sides.
ProtoWriter value_info(const std::string& name, OnnxType type, const std::vector<OnnxSide>& sides) {
  ProtoWriter shape, tensor, kind, out;
  for (const OnnxSide& side : sides) {
    ProtoWriter dimension;
    if (const auto* fixed = std::get_if<int64_t>(&side)) {
      dimension.integer(1, *fixed);
    } else {
      dimension.bytes(2, std::get<std::string>(side));
    }
    shape.message(1, dimension);
  }
  tensor.integer(1, static_cast<int64_t>(type));
  tensor.message(2, shape);
  kind.message(1, tensor);
  out.bytes(1, name);
  out.message(2, kind);
  return out;
}

ProtoWriter attribute_proto(const OnnxAttribute& attribute) {
  ProtoWriter out;
  out.bytes(attribute_field::name, attribute.name);
  if (const auto* number = std::get_if<float>(&attribute.value)) {
    out.real(attribute_field::real, *number);
    out.integer(attribute_field::type, 1);
  } else if (const auto* whole = std::get_if<int64_t>(&attribute.value)) {
    out.integer(attribute_field::integer, *whole);
    out.integer(attribute_field::type, 2);
  } else {
    for (const int64_t value : std::get<std::vector<int64_t>>(attribute.value)) {
      out.integer(attribute_field::integers, value);
    }
    out.integer(attribute_field::type, 7);
  }
  return out;
}

ProtoWriter tensor_proto(const std::string& name, OnnxType type, const std::vector<int64_t>& shape) {
  ProtoWriter out;
  for (const int64_t side : shape) out.integer(tensor_field::dims, side);
  out.integer(tensor_field::type, static_cast<int64_t>(type));
  out.bytes(tensor_field::name, name);
  return out;
}

template <class T>
std::string_view raw_bytes(std::span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

OnnxPlace OnnxWeights::place(const std::string& name, const TensorView& tensor) {
  if (const auto known = places_.find(name); known != places_.end()) return known->second;
  const std::string gap((kAlignment - size_ % kAlignment) % kAlignment, '\0');
  file_.write(gap);
  const std::vector<float> values = to_floats(tensor);
  file_.write(std::as_bytes(std::span(values)));
  const OnnxPlace place{.shape = tensor.shape, .offset = size_ + gap.size(), .bytes = std::span(values).size_bytes()};
  size_ = place.offset + place.bytes;
  places_.emplace(name, place);
  return place;
}

void OnnxGraph::input(const std::string& name, OnnxType type, const std::vector<OnnxSide>& sides) {
  values_.message(graph_field::input, value_info(name, type, sides));
}

void OnnxGraph::output(const std::string& name, OnnxType type, const std::vector<OnnxSide>& sides) {
  values_.message(graph_field::output, value_info(name, type, sides));
}

std::string OnnxGraph::node(const std::string& type, const std::vector<std::string>& inputs,
                            const std::vector<OnnxAttribute>& attributes, std::string output) {
  ProtoWriter out;
  for (const std::string& input : inputs) out.bytes(node_field::input, input);
  out.bytes(node_field::output, output);
  out.bytes(node_field::name, fmt::format("{}_{}", type, count_));
  out.bytes(node_field::type, type);
  for (const OnnxAttribute& attribute : attributes) out.message(node_field::attribute, attribute_proto(attribute));
  nodes_.message(graph_field::node, out);
  ++count_;
  return output;
}

std::string OnnxGraph::op(const std::string& type, const std::vector<std::string>& inputs,
                          const std::vector<OnnxAttribute>& attributes) {
  return node(type, inputs, attributes, fmt::format("v{}", count_));
}

void OnnxGraph::constant(const std::string& name, OnnxType type, const std::vector<int64_t>& shape,
                         std::string_view raw) {
  if (!is_new(name)) return;
  ProtoWriter tensor = tensor_proto(name, type, shape);
  tensor.bytes(tensor_field::raw, raw);
  tensors_.message(graph_field::initializer, tensor);
}

std::string OnnxGraph::integers(const std::vector<int64_t>& values) {
  const std::string name = fmt::format("list_{}", fmt::join(values, "_"));
  constant(name, OnnxType::integer, {static_cast<int64_t>(values.size())}, raw_bytes(std::span(values)));
  return name;
}

std::string OnnxGraph::integer(int64_t value) {
  const std::string name = fmt::format("whole_{}", value);
  constant(name, OnnxType::integer, {}, raw_bytes(std::span<const int64_t>(&value, 1)));
  return name;
}

std::string OnnxGraph::real(float value) {
  const std::string name = fmt::format("real_{}", value);
  constant(name, OnnxType::real, {}, raw_bytes(std::span<const float>(&value, 1)));
  return name;
}

std::string OnnxGraph::weight(const std::string& name, const TensorView& tensor, OnnxWeights& weights) {
  const OnnxPlace place = weights.place(name, tensor);
  if (!is_new(name)) return name;
  ProtoWriter out = tensor_proto(name, OnnxType::real, place.shape);
  out.message(tensor_field::external, entry("location", weights.file_name()));
  out.message(tensor_field::external, entry("offset", fmt::format("{}", place.offset)));
  out.message(tensor_field::external, entry("length", fmt::format("{}", place.bytes)));
  out.integer(tensor_field::location, 1);
  tensors_.message(graph_field::initializer, out);
  return name;
}

void OnnxGraph::note(const std::string& key, const std::string& value) {
  notes_.message(model_field::metadata, entry(key, value));
}

std::string OnnxGraph::bytes() const {
  ProtoWriter name, opset, out;
  name.bytes(graph_field::name, name_);
  opset.bytes(1, "");
  opset.integer(2, kOnnxOpset);
  out.integer(model_field::ir_version, kOnnxIrVersion);
  out.bytes(model_field::producer, "exeunt");
  out.bytes(model_field::producer_version, version());
  // The graph's own parts are fields behind one another, in any order.
  out.bytes(model_field::graph, nodes_.content() + name.content() + tensors_.content() + values_.content());
  out.message(model_field::opset, opset);
  return out.content() + notes_.content();
}

}  // namespace exeunt
