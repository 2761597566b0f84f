// SPDX-License-Identifier: Apache-2.0
//   device_soak [DEVICE [SECONDS [SEED]]]       random models on a device against the CPU; ten minutes of cuda by
//   default
// Says every ten seconds how far it is; the exit status is 1 if anything disagreed.
#include "tests/unit/engine/device_soak.h"

#include <cstdio>
#include <cstdlib>

int main(int count, char** arguments) {
  using namespace exeunt;
  try {
    const Device device = parse_device(count > 1 ? arguments[1] : "cuda");
    const double seconds = count > 2 ? std::atof(arguments[2]) : 600;
    const auto seed = static_cast<uint32_t>(count > 3 ? std::atoi(arguments[3]) : 1);
    DeviceSoak soak(device, seed);
    const auto start = Clock::now();
    double reported = 0;
    for (double passed = 0; passed < seconds && soak.report().failures.size() < 20;
         passed = std::chrono::duration<double>(Clock::now() - start).count()) {
      soak.run_case();
      if (passed - reported < 10) continue;
      reported = passed;
      fmt::print("{:.0f} s: {}\n", passed, soak.report().text());
      std::fflush(stdout);
    }
    fmt::print("{} on {}, seed {}\n", soak.report().text(), engine_traits(device).name, seed);
    for (const std::string& failure : soak.report().failures) fmt::print("{}\n", failure);
    return soak.report().failures.empty() ? 0 : 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "device_soak: {}\n", error.what());
    return 3;
  }
}
