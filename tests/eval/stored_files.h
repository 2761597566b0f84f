// SPDX-License-Identifier: Apache-2.0
// A small folder of stored results: two seeds of one recipe with two exits, a plain model, a model cut short, and
// curves. Every figure that the tests expect is arithmetic over these.
#pragma once

#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scratch.h"

namespace exeunt {

class StoredFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder() / "grid");
    write("grid/SST-2-plain-1.json", run("SST-2 plain", 0, R"([{"layer": 12, "accuracy": 0.92}])",
                                         R"(, "exits_held-out": [{"layer": 12, "accuracy": 0.94}])"));
    write("grid/SST-2-exeunt-1.json",
          run("SST-2 exeunt", 0, R"([{"layer": 1, "accuracy": 0.80}, {"layer": 12, "accuracy": 0.91}])"));
    write("grid/SST-2-exeunt-2.json",
          run("SST-2 exeunt", 0, R"([{"layer": 1, "accuracy": 0.84}, {"layer": 12, "accuracy": 0.93}])"));
    write("grid/MRPC-exeunt-1.json", run("MRPC exeunt", 0,
                                         R"([{"layer": 1, "accuracy": 0.70, "f1": 0.80},
                                             {"layer": 12, "accuracy": null, "f1": null}])"));
    write("grid/elue-MRPC-elasticbert-static3-1.json",
          run("elue-MRPC elasticbert-static", 3, R"([{"layer": 3, "accuracy": 0.75, "f1": 0.85}])"));
    write("curves.json", R"([
      {"task": "SST-2", "recipe": "exeunt", "seed": 1, "split": "held-out", "rows":
        [{"policy": "entropy:0.1", "score": 94.0, "layers": 6.0},
         {"policy": "entropy:0.2", "score": 93.5, "layers": 4.0},
         {"policy": "entropy:0.3", "score": 93.4, "layers": 3.0}]},
      {"task": "SST-2", "recipe": "exeunt", "seed": 1, "split": "eval", "rows":
        [{"policy": "entropy:0.2", "score": 91.0, "layers": 4.0},
         {"policy": "patience:2", "score": 90.0, "layers": 5.0}]},
      {"task": "SST-2", "recipe": "exeunt", "seed": 2, "split": "eval", "rows":
        [{"policy": "entropy:0.2", "score": 92.0, "layers": 4.0},
         {"policy": "patience:2", "score": 91.0, "layers": 5.5}]}])");
  }

  // `name` is "SST-2 plain": task and recipe; `more` goes into the results, `settings` beside them.
  static std::string run(const std::string& name, int layers, const std::string& exits, const std::string& more = "",
                         const std::string& settings = "{}") {
    const size_t blank = name.find(' ');
    return fmt::format(R"({{"task": "{}", "recipe": "{}", "seed": 1, "layers": {}, "steps": 1210, "results": )"
                       R"({{"exits": {}{}}}, "settings": {}}})",
                       name.substr(0, blank), name.substr(blank + 1), layers, exits, more, settings);
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder() / name).parent_path());
    scratch_.write(name, text);
  }
  [[nodiscard]] std::filesystem::path folder() const { return scratch_.path(); }

 private:
  Scratch scratch_{quick_parent()};
};

}  // namespace exeunt
