// SPDX-License-Identifier: Apache-2.0
// ONNX files written field by field: just the parts of protocol buffers and of onnx.proto that a graph needs.
// A message is a list of byte pieces, joined once at the end, so that gigabytes of weights are copied only there.

export const FLOAT = 1, UINT8 = 2, INT8 = 3, INT32 = 6, INT64 = 7;

function varint(value) {
  const bytes = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  do {
    const low = Number(rest & 127n);
    rest >>= 7n;
    bytes.push(rest ? low | 128 : low);
  } while (rest);
  return Buffer.from(bytes);
}

const size = (pieces) => pieces.reduce((sum, piece) => sum + piece.length, 0);

export const integer = (number, value) => [varint(number << 3), varint(value)];
export const message = (number, pieces) => [varint((number << 3) | 2), varint(size(pieces)), ...pieces];
export const bytes = (number, data) => message(number, [data]);
export const text = (number, value) => bytes(number, Buffer.from(value));
export function real(number, value) {
  const data = Buffer.alloc(4);
  data.writeFloatLE(value);
  return [varint((number << 3) | 5), data];
}

// TensorProto: dims 1, data_type 2, name 8, raw_data 9.
export function tensor(name, type, dims, data) {
  const raw = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return [...dims.flatMap((dim) => integer(1, dim)), ...integer(2, type), ...text(8, name), ...bytes(9, raw)];
}

// AttributeProto: name 1, f 2, i 3, ints 8, type 20 (1 = float, 2 = int, 7 = ints).
function attribute([name, value]) {
  if (Array.isArray(value)) return [...text(1, name), ...value.flatMap((part) => integer(8, part)), ...integer(20, 7)];
  return Number.isInteger(value) ? [...text(1, name), ...integer(3, value), ...integer(20, 2)]
                                 : [...text(1, name), ...real(2, value), ...integer(20, 1)];
}

// NodeProto: input 1, output 2, op_type 4, attribute 5, domain 7.
export function node(type, inputs, outputs, attributes = {}, domain = '') {
  return [...inputs.flatMap((name) => text(1, name)), ...outputs.flatMap((name) => text(2, name)), ...text(4, type),
    ...Object.entries(attributes).flatMap((entry) => message(5, attribute(entry))), ...text(7, domain)];
}

// ValueInfoProto: name 1, type 2 → tensor_type 1 → elem_type 1, shape 2 → dim 1 → dim_value 1 or dim_param 2.
export function value(name, type, dims) {
  const shape = dims.flatMap((dim) => message(1, typeof dim === 'string' ? text(2, dim) : integer(1, dim)));
  return [...text(1, name), ...message(2, message(1, [...integer(1, type), ...message(2, shape)]))];
}

// ModelProto: ir_version 1, producer_name 2, graph 7, opset_import 8. GraphProto: node 1, name 2, initializer 5,
// input 11, output 12.
export function model({nodes, tensors, inputs, outputs}) {
  const graph = [...nodes.flatMap((one) => message(1, one)), ...text(2, 'encoder'),
    ...tensors.flatMap((one) => message(5, one)), ...inputs.flatMap((one) => message(11, one)),
    ...outputs.flatMap((one) => message(12, one))];
  const opset = (domain, version) => message(8, [...text(1, domain), ...integer(2, version)]);
  return Buffer.concat([...integer(1, 8), ...text(2, 'exeunt'), ...message(7, graph), ...opset('', 17),
    ...opset('com.microsoft', 1)]);
}
