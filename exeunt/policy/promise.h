// SPDX-License-Identifier: Apache-2.0
// What a certificate promises, in the one sentence that every command, file and page shows, and the conditions under
// which it holds.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "exeunt/policy/policy_file.h"

namespace exeunt {

// "at most 2 % of answers to requests differ from the fp32 model at full depth, confidence 95 %". `precision` is that
// of the entry.
[[nodiscard]] std::string promise_of(const Certificate& certificate, std::string_view precision);
// The same of an entry; "none (not certified)" if it has no certificate.
[[nodiscard]] std::string promise_of(const PolicyEntry& entry);
// What is drawn at random where rows have clusters: "questions", or the values of a column.
[[nodiscard]] std::string unit_of(std::string_view cluster_by);

// The notice beside a promise about changed answers where the rows have labels.
inline constexpr std::string_view kAccuracyOffer =
    "these rows have labels: --loss zero_one_drop would promise accuracy instead (changed answers count only by what "
    "they lose or gain); on the same rows that is another try";

// "none (WHY)": how a missing promise is worded.
[[nodiscard]] std::string no_promise(std::string_view why);

// Why the certificate of an entry does not hold here, in words that name the first difference; empty if it does. What
// the certificate does not know is not compared.
[[nodiscard]] std::string broken_condition(const PolicyEntry& entry, const RunConditions& run);

// The certificate of a policy of the entry: of its default one, or of the point that has this rule, with that point's
// budget; nothing for any other policy or exits. Conditions are not looked at.
[[nodiscard]] std::optional<Certificate> certificate_for(const PolicyEntry& entry, const PolicySpec& policy);

}  // namespace exeunt
