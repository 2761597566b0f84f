// SPDX-License-Identifier: Apache-2.0
// Values as Python prints them, and NumPy's .npy files: arrays of numbers read (versions 1 to 3, C and Fortran order),
// arrays of float64 written, and the one object array that DeeBERT's plots are drawn from.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "exeunt/base/tensor.h"

namespace exeunt {

// str(float): the shortest digits that read back, "0.1", "1.0", "1e-05", "nan".
[[nodiscard]] std::string python_float(double value);

// str(dict) of integers: "{1: 0, 2: 49}".
[[nodiscard]] std::string python_dict(const std::map<int, int64_t>& values);

// An array in a mapped file. Fortran order shows in the view's strides.
struct NpyArray {
  TensorView view;
  std::shared_ptr<const void> owner;
};

// Throws Error (bad_file). Objects, structures, text, big-endian and unsigned numbers wider than a byte are rejected.
[[nodiscard]] NpyArray read_npy(const std::filesystem::path& path);
[[nodiscard]] TensorView parse_npy(std::span<const std::byte> bytes, std::string_view where);

// Any numbers of an array, in row-major order, as double (exact but for integers beyond 2^53).
[[nodiscard]] std::vector<double> to_doubles(const TensorView& view);

// A folder with those above it. Throws Error (resources).
void create_folders(const std::filesystem::path& folder);

void write_npy(const std::filesystem::path& path, std::span<const double> values, std::vector<int64_t> shape);

// The content of DeeBERT's entropy_{S}.npy: np.array([{layer: texts that exited there}, seconds, cost fraction,
// score]).
struct DeebertRun {
  std::map<int, int64_t> exits;
  double seconds = 0, cost_fraction = 0, score = 0;
};
void write_deebert_npy(const std::filesystem::path& path, const DeebertRun& run);

}  // namespace exeunt
