// SPDX-License-Identifier: Apache-2.0
#include "lab/report/terms.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "lab/report/chart.h"

namespace exeunt {
namespace {

struct Term {
  std::string_view name, meaning;
};

constexpr std::array kTerms = {
    // exit rules
    Term{"full", "every text runs through all layers"},
    Term{"layer", "every text leaves after this layer"},
    Term{"entropy", "leaves when the entropy of the class probabilities is below the threshold; 0 is certain"},
    Term{"nentropy", "normalised entropy, from 0 (certain) to 1 (all classes alike); leaves below the threshold"},
    Term{"confidence", "leaves when the largest probability is above the threshold"},
    Term{"gini", "leaves when the Gini impurity of the probabilities is below the threshold; 0 is certain"},
    Term{"margin", "leaves when the largest probability leads the second by more than the threshold"},
    Term{"minprob", "leaves when the smallest probability is below the threshold"},
    Term{"patience", "leaves when so many exits in a row have given the same answer as the one before"},
    Term{"window", "leaves when the normalised entropy is below the threshold, or the last exits all lean to one side"},
    Term{"pcee", "leaves when the normalised entropy was below the threshold at so many exits in a row"},
    Term{"divergence", "leaves when the probabilities have hardly changed over so many exits in a row"},
    Term{"vote", "leaves when the confidences of exits that agree in a row add up to more than the threshold"},
    Term{"lte", "leaves when a small learned head says that going on will not help (BERxiT)"},
    // figures
    Term{"quality", "the task's metric on these texts, with this policy"},
    Term{"at full depth", "the same metric when every text runs through all layers"},
    Term{"agreement", "share of texts with the same answer as at full depth"},
    Term{"layers", "mean number of layers that a text runs through"},
    Term{"speed-up", "layers of the model divided by the mean number run; wall time depends on the machine, too"},
    Term{"MFLOPs", "millions of floating-point operations per text"},
    Term{"padded", "the same with every text padded to the maximum length"},
    Term{"ms", "predicted milliseconds per text, from the model's profile"},
    Term{"certificate",
         "a tested bound on how often answers change against full depth, for texts like those it was "
         "tested on"},
    Term{"calibration error", "how far confidence and accuracy are apart, on average; 0 is calibrated"},
    Term{"accuracy", "share of texts with the right answer"},
    Term{"f1", "harmonic mean of precision and recall"},
    Term{"matthews_correlation", "correlation of answers and labels: 1 perfect, 0 as by chance"},
    Term{"combined_score", "mean of the task's two metrics"},
    Term{"exact_match", "share of texts whose set of labels is right as a whole"},
    Term{"micro_f1", "F1 over all decisions about a label of a text, together"},
    Term{"macro_f1", "mean of the labels' F1: rare labels count as much as frequent ones"},
    Term{"pearson", "linear correlation of answers and labels"},
    Term{"spearmanr", "correlation of their ranks"},
    Term{"precision", "of the texts with this answer, the share that it is right for"},
    Term{"recall", "of the texts of this class, the share that is found"},
    Term{"texts", "how many texts have this label"},
    Term{"macro f1", "mean of the classes' F1: rare classes count as much as frequent ones"},
    Term{"micro f1", "F1 over all texts: the accuracy"},
    Term{"weighted f1", "mean of the classes' F1, weighted by their texts"},
};

}  // namespace

std::string_view explained(std::string_view term) noexcept {
  const auto found = std::find_if(kTerms.begin(), kTerms.end(), [&](const Term& one) { return one.name == term; });
  return found == kTerms.end() ? std::string_view{} : found->meaning;
}

std::string term_html(std::string_view term, std::string_view shown) {
  const std::string text = escape_html(shown.empty() ? term : shown);
  const std::string_view meaning = explained(term);
  return meaning.empty() ? text : fmt::format(R"(<abbr title="{}">{}</abbr>)", escape_html(meaning), text);
}

}  // namespace exeunt
