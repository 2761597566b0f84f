// SPDX-License-Identifier: Apache-2.0
// A model of a known shape with random weights, for us and for other software: random_model SHAPE FOLDER writes
// FOLDER/model, which `exeunt bench` takes, and FOLDER/onnx, the same graph for ONNX Runtime.
#include <cstdio>
#include <exception>
#include <filesystem>

#include "exeunt/flows/bench.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/onnx_export.h"

int main(int count, char** arguments) try {
  if (count != 3) {
    std::fputs("usage: random_model SHAPE FOLDER\n", stderr);
    return 2;
  }
  const std::filesystem::path folder(arguments[2]);
  const exeunt::Checkpoint model = exeunt::open_for_bench({.model = arguments[1]});
  std::filesystem::create_directories(folder);
  exeunt::write_exeunt_folder(model, folder / "model");
  exeunt::export_onnx(model, folder / "onnx");
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "random_model: %s\n", error.what());
  return 1;
}
