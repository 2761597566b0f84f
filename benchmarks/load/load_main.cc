// SPDX-License-Identifier: Apache-2.0
// exeunt-load TRIAL [flags] -- SERVER COMMAND…: runs one trial against a server and records the result.
#include <fstream>
#include <iostream>
#include <map>

#include <CLI/CLI.hpp>

#include "benchmarks/load/attackers.h"
#include "benchmarks/load/load.h"
#include "benchmarks/load/trials.h"

namespace exeunt::load {
namespace {

using Trial = void (*)(const Setting&, Record&);

const std::map<std::string, Trial>& trials() {
  static const std::map<std::string, Trial> all = {{"attack", attack},     {"keyless", keyless},   {"company", company},
                                                   {"deadline", deadline}, {"degrade", degrade},   {"drain", drain},
                                                   {"keys", keys},         {"memory", memory},     {"mutate", mutate},
                                                   {"overhead", overhead}, {"overload", overload}, {"peak", peak},
                                                   {"slow", slow},         {"soak", soak},         {"start", start}};
  return all;
}

// One request per line of the file; without a file, a few sentences.
std::vector<std::string> requests_of(const std::string& path, size_t most) {
  std::vector<std::string> texts = {"A film that knows when to end.", "Dull, long and in love with itself.",
                                    "Not the worst of its kind, but close to it.", "I laughed, I cried, I left early."};
  if (!path.empty()) {
    texts.clear();
    std::ifstream file(path);
    for (std::string line; texts.size() < most && std::getline(file, line);) {
      if (!line.empty()) texts.push_back(line);
    }
    if (texts.empty()) throw std::runtime_error(path + ": no texts");
  }
  std::vector<std::string> out;
  for (const std::string& text : texts) {
    const Json body = {{"inputs", text}};
    out.push_back(post_request("/predict", body.dump(-1, ' ', false, Json::error_handler_t::replace)));
  }
  return out;
}

int run(int count, char** words) {
  Setting setting;
  std::string trial, texts, out, command = "exeunt-load";
  size_t most = 1000;
  int own = 1;
  while (own < count && std::string_view(words[own]) != "--") ++own;
  for (int i = own + 1; i < count; ++i) setting.server.emplace_back(words[i]);
  for (int i = 1; i < count; ++i) {
    if (i < own && std::string_view(words[i]) == "--out") {
      ++i;  // not part of the trial
    } else {
      command += std::string(" ") + words[i];
    }
  }
  std::vector<std::string> names;
  for (const auto& [name, function] : trials()) names.push_back(name);

  CLI::App app("Run one trial against a server: exeunt-load TRIAL [flags] -- SERVER COMMAND…");
  app.add_option("TRIAL", trial, "Which trial")->required()->check(CLI::IsMember(names));
  app.add_option("--texts", texts, "File with one text per line");
  app.add_option("--max-texts", most, "Maximum texts to read from it");
  app.add_option("--seconds", setting.seconds, "Duration of each measurement")->capture_default_str();
  app.add_option("--rate", setting.rate, "soak, attack: requests per second; 0 = 0.7 of capacity, or half");
  app.add_option("--trials", setting.trials, "drain, start: repetitions")->capture_default_str();
  app.add_option("--count", setting.count, "mutate: requests; keys: samples; memory: maximum starts")
      ->capture_default_str();
  app.add_option("--drop", setting.drop, "degrade: value of --max-drop-under-load")->capture_default_str();
  app.add_option("--shim", setting.shim, "memory: the library that makes allocations fail");
  app.add_option("--sockets", setting.sockets, "attack: attacking connections")->capture_default_str();
  std::vector<std::string> attacks(kAttacks.begin(), kAttacks.end());
  attacks.insert(attacks.end(), kTlsAttacks.begin(), kTlsAttacks.end());
  app.add_option("--attack", setting.attack, "attack, keyless: the only kind to play (default: all; keyless: bodies)")
      ->check(CLI::IsMember(attacks));
  app.add_flag("--tls", setting.tls, "attack, keyless: inside TLS, which the server's command must offer");
  app.add_option("--p99", setting.p99_ms, "peak: latency limit in milliseconds")->capture_default_str();
  app.add_option("--out", out, "Write the record to this file (JSON)");
  CLI11_PARSE(app, own, words);
  if (setting.server.empty() && trial != "keys") {
    std::cerr << "exeunt-load: missing the server's command after --\n";
    return 2;
  }
  setting.requests = requests_of(texts, most);
  Record record(trial, command);
  trials().at(trial)(setting, record);
  const std::string text = json_text(record.json());
  std::cout << text;
  if (!out.empty()) std::ofstream(out) << text;
  return record.kept() ? 0 : 1;
}

}  // namespace
}  // namespace exeunt::load

int main(int count, char** words) {
  try {
    return exeunt::load::run(count, words);
  } catch (const exeunt::load::CannotTry& error) {
    std::cerr << "exeunt-load: " << error.what() << '\n';
    return exeunt::load::kNotTried;
  } catch (const std::exception& error) {
    std::cerr << "exeunt-load: " << error.what() << '\n';
    return 1;
  }
}
