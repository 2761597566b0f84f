// SPDX-License-Identifier: Apache-2.0
// What the sources of the C interface share: the object behind a handle, and the way from exceptions to statuses.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "exeunt/base/error.h"
#include "exeunt/c/exeunt.h"
#include "exeunt/engine/classifier.h"

namespace exeunt::c {

// The object behind an exeunt_model, which stays an incomplete type in the interface.
class Model {
 public:
  Model(const std::string& folder, const ClassifierOptions& options);

  // The policy with this text, resolved as at opening; null: the model's own. Throws Error (usage).
  [[nodiscard]] std::shared_ptr<const BoundPolicy> policy_named(const char* text);
  [[nodiscard]] const ExitLayout& exits() const noexcept { return classifier.checkpoint().exits(); }

  Classifier classifier;
  std::string policy, precision, engine, promise;

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const BoundPolicy>, std::less<>> bound_;  // by text
};

// What an exeunt_model points to: a stream of answers keeps the model beyond exeunt_close().
inline const std::shared_ptr<Model>& shared(const exeunt_model* model) noexcept {
  return *reinterpret_cast<const std::shared_ptr<Model>*>(model);
}
inline Model& of(exeunt_model* model) noexcept {
  return *shared(model);
}
inline const Model& of(const exeunt_model* model) noexcept {
  return *shared(model);
}

// Keeps what failed for exeunt_last_error() of this thread, and returns `status`.
struct LastError {
  std::string message, hint;
};
inline LastError& last_error() noexcept {
  thread_local LastError last;
  return last;
}
inline exeunt_status failed(exeunt_status status, const char* message, const char* hint) noexcept {
  try {
    last_error() = {message, hint};
  } catch (...) {
    last_error().message.clear();  // no memory for the message
  }
  return status;
}

// Runs `act` and turns whatever it throws into a status.
template <class Act>
exeunt_status guarded(Act&& act) noexcept {
  try {
    act();
    return EXEUNT_OK;
  } catch (const Error& error) {
    return failed(static_cast<exeunt_status>(error.code()), error.what(), error.hint().c_str());
  } catch (const std::bad_alloc&) {
    return failed(EXEUNT_RESOURCES, "out of memory", "");
  } catch (const std::exception& error) {
    return failed(EXEUNT_FAILURE, error.what(), "this is a bug in exeunt; please report it");
  } catch (...) {
    return failed(EXEUNT_FAILURE, "unknown failure", "this is a bug in exeunt; please report it");
  }
}

inline void require(bool condition, const char* what) {
  if (!condition) throw Error(Code::usage, what);
}

// The caller's struct may be shorter (an older header) or longer (a newer one) than ours.
template <class Struct>
Struct read_struct(const Struct* given, Struct defaults) {
  if (given == nullptr) return defaults;
  require(given->struct_size >= sizeof(size_t), "struct_size: got 0, want the size of the struct");
  std::memcpy(&defaults, given, std::min(given->struct_size, sizeof(Struct)));
  return defaults;
}

}  // namespace exeunt::c
