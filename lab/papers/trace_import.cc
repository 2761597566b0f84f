// SPDX-License-Identifier: Apache-2.0
#include "lab/papers/trace_import.h"

#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "exeunt/base/error.h"
#include "exeunt/base/sha256.h"
#include "exeunt/certify/tries.h"
#include "lab/papers/npy.h"

namespace exeunt {
namespace {

std::vector<float> read_gold(const std::filesystem::path& path, size_t rows, bool regression) {
  const NpyArray array = read_npy(path);
  const std::string where = path.string();
  if (array.view.shape != std::vector<int64_t>{static_cast<int64_t>(rows)})
    throw_bad_file(where, "got shape {}, want [{}]: one per row of the logits", shape_text(array.view.shape), rows);
  std::vector<float> gold;
  const std::vector<double> values = to_doubles(array.view);
  for (size_t row = 0; row < rows; ++row) {
    // A label beyond 2^24 would round to its neighbour; none is that large.
    if (!regression && std::abs(values[row]) > 1e7)
      throw_bad_file(where, "got {} in row {}, want a label", values[row], row);
    gold.push_back(static_cast<float>(values[row]));
  }
  return gold;
}

void take_names(ExitTrace& trace, const TraceImport& source) {
  if (trace.width == 1) trace.info.problem = Problem::regression;
  const size_t classes = trace.info.problem == Problem::regression ? 0 : static_cast<size_t>(trace.width);
  trace.info.labels = source.labels;
  if (!source.labels.empty() && source.labels.size() != classes) {
    throw Error(Code::usage, fmt::format("--labels: got {} names, want {}: the logits have {} outputs",
                                         source.labels.size(), classes, trace.width));
  }
  if (source.labels.empty())
    for (size_t c = 0; c < classes; ++c) trace.info.labels.push_back(std::to_string(c));
  trace.info.layers = source.layers;
  if (source.layers.empty()) {
    trace.info.layers.resize(static_cast<size_t>(trace.exits));
    std::iota(trace.info.layers.begin(), trace.info.layers.end(), 1);
  } else if (source.layers.size() != static_cast<size_t>(trace.exits)) {
    throw Error(Code::usage, fmt::format("--exits: got {} layers, want {}: one per exit of the logits",
                                         source.layers.size(), trace.exits));
  }
}

}  // namespace

ExitTrace import_trace(const TraceImport& source) {
  const NpyArray array = read_npy(source.logits);
  const std::string where = source.logits.string();
  const std::vector<int64_t>& shape = array.view.shape;
  if (shape.size() != 3) {
    throw_bad_file(where, Hint{"a regression is [rows, exits, 1]"}, "got shape {}, want [rows, exits, classes]",
                   shape_text(shape));
  }
  if (!is_floating(array.view.dtype)) throw_bad_file(where, "got {}, want floats", name_of(array.view.dtype));
  if (shape[1] > kMaxExits || shape[2] > std::numeric_limits<int>::max())
    throw_bad_file(where, "got shape {}, want at most {} exits", shape_text(shape), kMaxExits);

  ExitTrace trace;
  trace.rows = static_cast<size_t>(shape[0]);
  trace.exits = static_cast<int>(shape[1]);
  trace.width = static_cast<int>(shape[2]);
  take_names(trace, source);
  trace.info.weights = trace.info.data = sha256_file(source.logits);
  trace.info.precision = trace.info.engine = kExternalPrecision;
  trace.info.task = source.task;
  trace.info.split = source.split;
  trace.info.tool = source.tool;
  trace.info.created = source.created;
  trace.logits = to_floats(array.view);
  trace.gold = source.gold.empty() ? std::vector<float>(trace.rows, std::numeric_limits<float>::quiet_NaN())
                                   : read_gold(source.gold, trace.rows, trace.info.problem == Problem::regression);
  trace.index.resize(trace.rows);
  std::iota(trace.index.begin(), trace.index.end(), int64_t{0});
  check_trace(trace, where);
  hash_rows_by_logits(trace);
  return trace;
}

}  // namespace exeunt
