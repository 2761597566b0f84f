// SPDX-License-Identifier: Apache-2.0
// Bytes as one pickle, and its tensors over storages that exist if they are small. Without a file around the pickle the
// fuzzer gets to the tensors sooner.
#include <array>

#include "exeunt/model/pickle.h"
#include "exeunt/model/torch_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/touch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace exeunt;
  for (const StorageForm form : {StorageForm::plain, StorageForm::with_view}) {
    read_or_refuse([&] {
      const Pickle pickle = parse_pickle(bytes_of(data, size), "input");
      const TorchPickle source{.pickle = pickle, .where = "input", .form = form};
      TorchStorages storages = named_storages(source);
      static const std::array<std::byte, 4096> room{};
      for (auto& [key, storage] : storages) {
        const auto bytes = storage.size();
        if (!bytes || *bytes > room.size()) throw_bad_file("input", "a storage without bytes");
        // At the end of the room, so that one step too far leaves it.
        storage.bytes = std::span(room).last(*bytes);
      }
      touch_all(state_dict(source, storages));
    });
  }
  return 0;
}
