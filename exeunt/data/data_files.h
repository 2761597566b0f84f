// SPDX-License-Identifier: Apache-2.0
// Which files the user's data is made of: one, several, a folder of them, or a folder of texts for each label.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "exeunt/base/files.h"
#include "exeunt/data/rows.h"

namespace exeunt {

struct DataFile {
  std::filesystem::path path;
  std::string label = {};  // of a whole file that is one text; empty: a table
};

// `name` is a file; several, separated by commas; a folder of tables; or a folder whose folders are labels and hold
// texts (*.txt), one in each file. In the order of their names. Throws Error if there is none.
[[nodiscard]] std::vector<DataFile> data_files(const std::string& name);

}  // namespace exeunt
