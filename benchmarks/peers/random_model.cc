// SPDX-License-Identifier: Apache-2.0
// A model of a known shape with random weights, for us and for other software: random_model SHAPE FOLDER writes
// FOLDER/model, which `exeunt bench` takes, and FOLDER/onnx, the same graph for ONNX Runtime. random_model SHAPE FOLDER
// VOCABULARY writes FOLDER/model alone, with an exit after every layer and that vocab.txt, for a server.
#include <cstdio>
#include <exception>
#include <filesystem>

#include "exeunt/eval/bench.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/model/onnx_export.h"

int main(int count, char** arguments) try {
  if (count != 3 && count != 4) {
    std::fputs("usage: random_model SHAPE FOLDER [VOCABULARY]\n", stderr);
    return 2;
  }
  const std::filesystem::path folder(arguments[2]);
  std::filesystem::create_directories(folder);
  if (count == 4) {
    const auto vocabulary = [&](const std::filesystem::path& into) {
      std::filesystem::copy_file(arguments[3], into / "vocab.txt");
      return std::vector<std::string>{"vocab.txt"};
    };
    const exeunt::Checkpoint model =
        exeunt::open_for_bench({.model = arguments[1], .heads = exeunt::BenchHeads::every});
    exeunt::write_exeunt_folder(model, folder / "model", {.beside = vocabulary});
    return 0;
  }
  const exeunt::Checkpoint model = exeunt::open_for_bench({.model = arguments[1]});
  exeunt::write_exeunt_folder(model, folder / "model");
  exeunt::export_onnx(model, folder / "onnx");
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "random_model: %s\n", error.what());
  return 1;
}
