// SPDX-License-Identifier: Apache-2.0
// `exeunt serve`: a model over HTTP. Flags and variables have the names of text-embeddings-inference if it has them.
#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <poll.h>
#include <unistd.h>

#include "apps/exeunt/command.h"
#include "apps/exeunt/data_flags.h"
#include "apps/exeunt/model_flags.h"
#include "apps/exeunt/output.h"
#include "exeunt/base/files.h"
#include "exeunt/data/hold_out.h"
#include "exeunt/serve/server.h"

namespace exeunt::apps {
namespace {

// Flags of text-embeddings-inference without a meaning here: accepted, so that existing command lines work.
constexpr std::array<const char*, 13> kForeign{
    "--max-batch-tokens",      "--max-batch-requests", "--tokenization-workers", "--pooling",
    "--default-prompt-name",   "--default-prompt",     "--dense-path",           "--hf-token",
    "--huggingface-hub-cache", "--uds-path",           "--otlp-endpoint",        "--otlp-service-name",
    "--prometheus-port"};

// "--dense-path" → "DENSE_PATH". Variables about the hub are read by other programs, too, and say nothing here.
std::string variable_of(std::string_view flag) {
  if (flag.starts_with("--hf-") || flag.starts_with("--huggingface-")) return {};
  std::string name;
  for (const char c : flag.substr(2)) name += c == '-' ? '_' : static_cast<char>(std::toupper(c));
  return name;
}

struct ServeFlags {
  serve::ServerOptions server;
  std::string precision, dtype, metrics_compat, max_drop, shadow, revision = "main";
  std::array<std::string, kForeign.size()> foreign;
  bool json_output = false, no_request_log = false, no_peer_log = false;
  int port = 3000;
};

std::optional<Precision> precision_of(const ServeFlags& flags) {
  std::string name = flags.precision;
  if (name.empty() && flags.dtype == "float32") name = "fp32";
  if (name.empty() && flags.dtype == "bfloat16") name = "bf16";
  return name.empty() ? std::nullopt : precision_named(name);
}

// Lines to stderr, one write each, so that those of several processes do not mix. Who reads them may be gone or asleep:
// then they are dropped and counted, because no client may wait for a slow log reader.
class LogLines {
 public:
  void operator()(std::string_view line) {
    pollfd out{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&out, 1, 0) != 1 || (out.revents & (POLLOUT | POLLERR)) != POLLOUT) {
      ++*dropped_;
      return;
    }
    if (*dropped_ > 0) {
      const std::string notice =
          fmt::format("{{\"level\":\"warn\",\"message\":\"{} log lines dropped\"}}\n", *dropped_);
      *dropped_ = 0;
      (void)!::write(STDERR_FILENO, notice.data(), notice.size());
    }
    (void)!::write(STDERR_FILENO, line.data(), line.size());
  }

 private:
  std::shared_ptr<uint64_t> dropped_ = std::make_shared<uint64_t>(0);  // copies count together
};

// A text for the playground to begin with: the first short one of the rows that training held out, where it did.
std::optional<serve::JobText> example_for(const std::string& model) {
  constexpr size_t kShort = 200;  // bytes
  if (!path_exists(std::filesystem::path(model) / kHeldOutFile)) return std::nullopt;
  try {
    UserColumns columns;
    columns.label.clear();  // the texts alone
    const Dataset rows = read_held_out(model, columns);
    const auto found = std::find_if(rows.examples.begin(), rows.examples.end(),
                                    [](const Example& row) { return row.text.size() <= kShort; });
    if (found == rows.examples.end()) return std::nullopt;
    return serve::JobText{.text = found->text, .pair = found->pair};
  } catch (const Error&) {
    return std::nullopt;  // a server does without an example
  }
}

void run(const Common& common, ServeFlags& flags) {
  serve::ServerOptions& server = flags.server;
  // Not left to the parser, which knows it as --model-id.
  if (server.model.empty()) throw Error(Code::usage, "MODEL is required", "see 'exeunt serve --help'");
  if (flags.revision != "main") {
    throw Error(Code::usage, fmt::format("--revision {}: only local snapshots can be served", flags.revision),
                "name the folder of that snapshot as MODEL");
  }
  // In a container HOSTNAME is the container's name, put there by nobody in particular: only an address counts.
  if (const char* host = std::getenv("HOSTNAME"); host != nullptr && server.listener.hostname.empty()) {
    if (serve::is_ip_address(host) || std::string_view(host) == "localhost") server.listener.hostname = host;
  }
  if (server.listener.hostname.empty()) server.listener.hostname = "127.0.0.1";
  server.listener.port = static_cast<uint16_t>(flags.port);
  server.engine.precision = precision_of(flags);
  server.max_drop_under_load = flags.max_drop.empty() ? 0 : share_of(flags.max_drop, "--max-drop-under-load", true);
  server.service.shadow.share = flags.shadow.empty() ? 0 : share_of(flags.shadow, "--shadow", true);
  server.service.tei_metrics = flags.metrics_compat == "tei";
  server.service.log_requests = !flags.no_request_log && !common.quiet;
  server.service.log_peers = !flags.no_peer_log;
  server.service.example = example_for(server.model);
  const serve::Log log(flags.json_output || common.json, LogLines());
  for (size_t i = 0; i < kForeign.size(); ++i) {
    if (flags.foreign[i].empty()) continue;
    log({.level = "warn", .message = "flag of text-embeddings-inference ignored", .fields = {{"flag", kForeign[i]}}});
  }
  if (!serve::run_server(server, log)) {
    throw Error(Code::failure, "some requests were unanswered when the drain timeout expired", "raise --drain-timeout");
  }
}

void add_address_flags(CLI::App& verb, ServeFlags& flags) {
  serve::ListenerOptions& listener = flags.server.listener;
  const OptionGroup network(verb, "Network");
  verb.add_option("--hostname", listener.hostname, "Address to listen on")->default_str("127.0.0.1");
  verb.add_option("-p,--port", flags.port, "Port; 0 = any free one")
      ->check(number_in(0, 65535))
      ->envname("PORT")
      ->capture_default_str();
  verb.add_option("--unix-socket", listener.unix_socket, "Path of a Unix socket to listen on instead");
  verb.add_option("--tls-cert", listener.tls_certificate, "Certificate chain (PEM); reloaded on SIGHUP");
  verb.add_option("--tls-key", listener.tls_key, "Its private key (PEM)");
  const OptionGroup access(verb, "Access");
  verb.add_option("--api-key-file", flags.server.api_key_file, "File of keys, one per line; reloaded on SIGHUP");
  verb.add_option("--api-key", flags.server.api_key, "API key; prefer a file, which keeps it out of the process list")
      ->envname("API_KEY");
  verb.add_flag("--insecure-no-auth", flags.server.insecure_no_auth, "Allow a public address without a key");
  verb.add_option("--cors-allow-origin", flags.server.service.access.origins,
                  "Allowed origins, comma-separated; * = any")
      ->envname("CORS_ALLOW_ORIGIN")
      ->delimiter(',');
  verb.add_option("--allowed-host", flags.server.service.access.hosts,
                  "Names clients use for the server, beside local ones; others get 403")
      ->delimiter(',');
}

void add_limit_flags(CLI::App& verb, ServeFlags& flags) {
  serve::JobOptions& jobs = flags.server.service.jobs;
  serve::ListenerOptions& listener = flags.server.listener;
  const OptionGroup group(verb, "Limits");
  const auto number = [&](const char* name, auto& value, const char* help) {
    return verb.add_option(name, value, help)->capture_default_str();
  };
  number("--max-concurrent-requests", jobs.admission.requests, "Concurrent requests; more get 429")
      ->envname("MAX_CONCURRENT_REQUESTS")
      ->check(number_in(1, 1 << 20));
  number("--queue-size", jobs.admission.texts, "Texts in flight")->check(number_in(1, 1 << 24));
  number("--max-client-batch-size", jobs.max_client_batch, "Texts per request")
      ->envname("MAX_CLIENT_BATCH_SIZE")
      ->check(number_in(1, 1 << 16));
  number("--payload-limit", listener.framing.body_bytes, "Bytes per request")
      ->envname("PAYLOAD_LIMIT")
      ->check(number_in(1, 1 << 30));
  number("--max-connections", listener.max_connections, "Concurrent connections")->check(number_in(1, 1 << 20));
  // A time is given in milliseconds or in seconds.
  const auto time = [&](const char* name, std::chrono::milliseconds& value, int unit_ms, const char* help) {
    verb.add_option_function<double>(
            name, [&value, unit_ms](double given) { value = std::chrono::milliseconds(std::llround(given * unit_ms)); },
            help)
        ->check(number_in(unit_ms == 1 ? 1 : 0, 3'600'000.0 / unit_ms))
        ->default_str(fmt::format("{}", value.count() / unit_ms));
  };
  time("--request-timeout", jobs.request_timeout, 1, "Milliseconds until a request gets 504");
  time("--header-timeout", listener.head_timeout, 1, "Milliseconds to receive a request's headers");
  time("--body-timeout", listener.body_timeout, 1, "Milliseconds to receive its body");
  time("--idle-timeout", listener.idle_timeout, 1, "Milliseconds a connection may stay idle");
  time("--drain-timeout", listener.drain_timeout, 1000, "Seconds to finish running requests after SIGTERM");
  time("--drain-delay", listener.drain_delay, 1000, "Seconds to keep serving before that, reporting not ready");
}

void add_policy_flags(CLI::App& verb, ServeFlags& flags) {
  const OptionGroup group(verb, "Exit policy");
  verb.add_option("--policy", flags.server.policy, "Exit policy")->default_str("the model's own");
  verb.add_option("--allow-policies", flags.server.allowed,
                  "Policies that requests may ask for, e.g. full,entropy:0..0.3")
      ->default_str("the certified points and full");
  verb.add_option("--max-drop-under-load", flags.max_drop,
                  "Under load, use certified policies up to this loss before refusing requests, e.g. 2%");
  verb.add_option("--shadow", flags.shadow,
                  "Share of answers compared with the certificate's reference, to monitor it, e.g. 1%");
  verb.add_option("--shadow-log", flags.server.shadow_log,
                  "File to keep what those comparisons saw, without the texts, for 'calibrate --from-server'");
  verb.add_flag("--tighten-on-alarm", flags.server.service.shadow.tighten_on_alarm,
                "Stop using a policy once its certificate is found violated");
}

void add_engine_flags(CLI::App& verb, ServeFlags& flags) {
  const OptionGroup group(verb, "Engine");
  verb.add_option("--precision", flags.precision, "fp32, bf16 or int8")
      ->default_str("the model's own")
      ->check(one_of({"fp32", "bf16", "int8"}));
  verb.add_option("--dtype", flags.dtype, "Alias of --precision")
      ->envname("DTYPE")
      ->check(one_of({"float16", "float32", "bfloat16"}));
  add_device_flag(verb, flags.server.engine.device);
  verb.add_option("--threads", flags.server.engine.threads, "Engine threads; 0 = one per processor it may use")
      ->check(number_in(0, 4096))
      ->capture_default_str();
  verb.add_option("--max-length", flags.server.max_length, "Maximum tokens per text; longer texts are truncated")
      ->check(number_in(1, 1 << 16))
      ->default_str("the certificate's, else the training's, else the model's");
  verb.add_flag("--auto-truncate,!--no-auto-truncate", flags.server.service.jobs.auto_truncate,
                "Truncate texts that are too long, or refuse them (default: truncate)")
      ->envname("AUTO_TRUNCATE");
}

void add_foreign_flags(CLI::App& verb, ServeFlags& flags) {
  verb.add_option("--revision", flags.revision)->envname("REVISION")->group("");
  for (size_t i = 0; i < kForeign.size(); ++i) {
    verb.add_option(kForeign[i], flags.foreign[i])->envname(variable_of(kForeign[i]))->group("");
  }
}

}  // namespace

void add_serve(CommandLine& line) {
  const auto flags = std::make_shared<ServeFlags>();
  flags->server.listener.hostname.clear();
  CLI::App* verb =
      add_verb(line, "serve", "Serve a model over HTTP: /predict, /v2/…, /classify, a playground at /",
               {"exeunt serve models/sst2", "exeunt serve models/sst2 --policy entropy:0.2 --port 8080",
                "exeunt serve models/sst2 --hostname 0.0.0.0 --api-key-file keys.txt --json-output",
                "curl localhost:3000/predict -H 'Content-Type: application/json' -d '{\"inputs\":\"A fine film\"}'"},
               [flags, &common = line.common] { run(common, *flags); });
  verb->add_option("MODEL,--model-id", flags->server.model, "Model folder, or org/name in the local Hugging Face cache")
      ->envname("MODEL_ID");
  verb->add_option("--served-model-name", flags->server.served_name, "Model name shown to clients")
      ->default_str("the folder's name")
      ->envname("SERVED_MODEL_NAME");
  verb->add_flag("--json-output", flags->json_output, "Log as JSON")->envname("JSON_OUTPUT");
  verb->add_flag("--no-request-log", flags->no_request_log, "Do not log requests");
  verb->add_flag("--no-peer-log", flags->no_peer_log, "Log requests without their clients' addresses");
  verb->add_option("--metrics-compat", flags->metrics_compat,
                   "Also export the metric names of text-embeddings-inference: tei")
      ->check(one_of({"tei"}));
  add_address_flags(*verb, *flags);
  add_limit_flags(*verb, *flags);
  add_policy_flags(*verb, *flags);
  add_engine_flags(*verb, *flags);
  add_foreign_flags(*verb, *flags);
}

}  // namespace exeunt::apps
