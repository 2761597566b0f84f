// SPDX-License-Identifier: Apache-2.0
#include "exeunt/runtime/classifier.h"

#include <algorithm>
#include <filesystem>

#include "exeunt/base/error.h"
#include "exeunt/base/files.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/runtime/engine_choice.h"
#include "exeunt/runtime/precision_map.h"

namespace exeunt {
namespace {

namespace fs = std::filesystem;

bool names_file(const std::string& policy) {
  return policy.ends_with(".json");
}

std::string promise_of(const std::optional<Certificate>& certificate) {
  if (!certificate) return "without a certificate";
  const bool in_expectation = certificate->method == RiskMethod::crc;
  return fmt::format(
      "certified: {} at most {:g} %{}", name_of(certificate->loss), 100 * certificate->epsilon,
      in_expectation ? " in expectation" : fmt::format(" with confidence {:g} %", 100 * (1 - certificate->delta)));
}

}  // namespace

Classifier::Classifier(const std::string& model, const ClassifierOptions& options)
    : checkpoint_(Checkpoint::open(model)), max_length_(options.max_length) {
  notices_ = checkpoint_.notices();
  if (checkpoint_.exits().sites.empty()) {  // before the tokenizer, so that this is the error reported
    throw Error(Code::bad_file,
                fmt::format("{}: the model has no exits: it is a bare backbone", checkpoint_.folder().string()),
                "train it first: exeunt train --model MODEL --data FILE");
  }
  tokenizer_ = load_tokenizer(checkpoint_.folder());
  read_policies(options.policy);
  EngineOptions engine = options.engine;
  choose_precision(engine);
  engine_ = std::make_unique<Engine>(checkpoint_, engine);
  map_ = precision_map_sha256(engine.exceptions);
  choose_policy(options.policy);
}

// policy.json of the model, or the file the caller names. One made for other weights is ignored.
void Classifier::read_policies(const std::string& policy) {
  path_ = names_file(policy) ? policy : (checkpoint_.folder() / "policy.json").string();
  if (!names_file(policy) && !path_exists(path_)) return;
  file_ = read_policy_file(path_);
  if (file_->weights == weights_sha256(checkpoint_)) return;
  if (names_file(policy)) throw_bad_file(path_, "the policy was made for other weights");
  file_.reset();
  if (policy.empty()) notices_.push_back(fmt::format("{}: made for other weights; running at full depth", path_));
}

void Classifier::choose_precision(EngineOptions& options) const {
  if (!options.precision) {
    options.precision =
        default_precision(file_ ? &*file_ : nullptr, options.kernels != nullptr ? *options.kernels : choose_kernels());
  }
  if (options.exceptions.empty()) {
    options.exceptions = find_precision_map(checkpoint_.folder(), checkpoint_.spec()).exceptions(*options.precision);
  }
}

// The entry of policy.json for the precision in use, if it was made with the same precision map.
const PolicyEntry* Classifier::own_entry() {
  if (!file_) return nullptr;
  const PolicyEntry* found = file_->find("cpu", engine_->name(), name_of(engine_->precision()));
  if (found == nullptr) {
    notices_.push_back(fmt::format("{}: no entry for {}; running at full depth", path_, name_of(engine_->precision())));
    return nullptr;
  }
  if (found->precision_map == map_) return found;
  notices_.push_back(fmt::format("{}: entry {} was made for another precision map; running at full depth", path_,
                                 name_of(engine_->precision())));
  return nullptr;
}

void Classifier::choose_policy(const std::string& text) {
  std::vector<float> exit_rates;
  if (!text.empty() && !names_file(text)) {
    spec_ = parse_policy(text);
  } else if (const PolicyEntry* entry = own_entry(); entry != nullptr) {
    spec_ = entry->complete();
    certificate_ = entry->certificate;
    exit_rates = entry->exit_rates(entry->policy);
    notices_.push_back(fmt::format("{}: policy {}, {}", path_, str(entry->policy), promise_of(certificate_)));
  } else if (checkpoint_.native_policy() && !file_) {
    spec_ = parse_policy(*checkpoint_.native_policy());
    notices_.push_back(fmt::format("{}: policy {}, as its files ask for", checkpoint_.folder().string(),
                                   *checkpoint_.native_policy()));
  } else {
    spec_ = parse_policy("full");
  }
  policy_ = engine_->bind(spec_, std::move(exit_rates));
}

EncodeOptions Classifier::encode_options() const noexcept {
  return {.max_length = std::min(max_length_, checkpoint_.spec().max_tokens())};
}

Answer Classifier::answer(std::string_view text, std::optional<std::string_view> pair) {
  const Encoding encoding = tokenizer_->encode(text, pair, encode_options());
  return std::move(engine_->answer({&encoding, 1}, ask()).front());
}

std::string Classifier::label(const Answer& answer) const {
  const ExitLayout& exits = checkpoint_.exits();
  if (exits.problem == Problem::regression) return fmt::format("{:g}", answer.evidence.value);
  return exits.labels.at(static_cast<size_t>(answer.evidence.label));
}

}  // namespace exeunt
