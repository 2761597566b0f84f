// SPDX-License-Identifier: Apache-2.0
// attach.json beside a model whose exits were attached: from which weights, texts and settings they were learned.
#pragma once

#include <cstdint>
#include <string>

#include "exeunt/attach/head_trainer.h"
#include "exeunt/base/fields.h"

namespace exeunt {

inline constexpr const char* kAttachFile = "attach.json";
inline constexpr std::string_view kAttachFormat = "exeunt.attach/1";

struct AttachRecord {
  std::string format = std::string(kAttachFormat);
  std::string weights = {};  // of the finished model
  std::string texts = {};
  int64_t rows = 0, learned = 0, chosen = 0, certified = 0, reported = 0;
  int max_length = 0;
  std::string engine = {}, precision = {};
  HeadSettings heads = {};
  std::string tool = {}, created = {};

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{"format", "`exeunt.attach/1`"}, self.format);
    visit(Field{"weights", "SHA-256 of the finished model's weights, as model.safetensors has them"}, self.weights);
    visit(Field{"texts", "SHA-256 over the files of texts"}, self.texts);
    visit(Field{"rows", "Rows in these files"}, self.rows);
    visit(Field{"learned", "Distinct texts that were learned"}, self.learned);
    visit(Field{"chosen", "… that chose settings"}, self.chosen);
    visit(Field{"certified", "… that certified the policy"}, self.certified);
    visit(Field{"reported", "… that measured the result"}, self.reported);
    visit(Field{"max_length", "Tokens of a text at most"}, self.max_length);
    visit(Field{"engine", "Which ran the frozen model"}, self.engine);
    visit(Field{"precision", "… and in which precision"}, self.precision);
    HeadSettings::fields(self.heads, visit);
    visit(Field{"tool", "Version of exeunt"}, self.tool);
    visit(Field{"created", "RFC 3339"}, self.created);
  }
};

}  // namespace exeunt
