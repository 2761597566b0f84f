// SPDX-License-Identifier: Apache-2.0
// Classifies the lines of standard input:  classify MODEL [POLICY] < texts.txt
#include <iostream>
#include <string>

#include <exeunt/base/error.h>
#include <exeunt/engine/classifier.h>

int main(int count, char** arguments) try {
  if (count < 2 || count > 3) {
    std::cerr << "usage: classify MODEL [POLICY] < texts.txt\n";
    return 2;
  }
  exeunt::ClassifierOptions options;
  if (count == 3) options.policy = arguments[2];
  exeunt::Classifier classifier(arguments[1], options);
  for (const std::string& notice : classifier.notices()) std::cerr << notice << '\n';
  for (std::string line; std::getline(std::cin, line);) {
    const exeunt::Answer answer = classifier.answer(line);
    std::cout << classifier.label(answer) << '\t' << answer.evidence.confidence << "\tlayer " << answer.layer << '\n';
  }
  return 0;
} catch (const exeunt::Error& error) {
  std::cerr << "error: " << error.what() << '\n';
  if (!error.hint().empty()) std::cerr << "  hint: " << error.hint() << '\n';
  return static_cast<int>(error.code());
}
