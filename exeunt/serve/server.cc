// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/server.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <random>
#include <thread>

#include "exeunt/base/ascii.h"
#include "exeunt/base/files.h"
#include "exeunt/engine/resolve.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/policy/policy_text.h"
#include "exeunt/serve/shadow.h"

namespace exeunt::serve {
namespace {

namespace fs = std::filesystem;

std::atomic<void*> emergency_memory = nullptr;

void release_emergency_memory() {
  void* memory = emergency_memory.exchange(nullptr);
  if (memory == nullptr) throw std::bad_alloc();
  std::free(memory);
}

// The first allocation that fails gets this memory, so that running work can finish: much of it, such as destroying a
// JSON value, allocates where nothing may throw. Requests are refused until it is reserved again. One per process: it
// installs the new-handler.
class MemoryReserve {
 public:
  MemoryReserve() {
    (void)is_reserved();
    std::set_new_handler(release_emergency_memory);
  }
  ~MemoryReserve() {
    std::set_new_handler(nullptr);
    std::free(emergency_memory.exchange(nullptr));
  }
  MemoryReserve(const MemoryReserve&) = delete;
  MemoryReserve& operator=(const MemoryReserve&) = delete;

  // Is it reserved, or could it be reserved again?
  [[nodiscard]] bool is_reserved() const noexcept {
    constexpr size_t kBytes = size_t{8} << 20;
    if (emergency_memory.load(std::memory_order_relaxed) != nullptr) return true;
    void* again = std::malloc(kBytes);
    if (again == nullptr) return false;
    void* none = nullptr;
    if (!emergency_memory.compare_exchange_strong(none, again)) std::free(again);  // another thread was faster
    return true;
  }
};

ApiKeys load_keys(const ServerOptions& options) {
  std::vector<std::string> keys;
  if (!options.api_key.empty()) keys = parse_keys(options.api_key, "--api-key");
  if (!options.api_key_file.empty()) {
    const auto more = parse_keys(read_text(options.api_key_file, 1 << 20), options.api_key_file);
    keys.insert(keys.end(), more.begin(), more.end());
  }
  return ApiKeys(keys);
}

// The name becomes a part of paths, so unsafe characters are replaced.
ModelFacts facts_of(const Checkpoint& model, const ServerOptions& options, int max_length) {
  ModelFacts facts;
  facts.name = options.served_name.empty() ? fs::path(options.model).lexically_normal().filename().string()
                                           : options.served_name;
  if (facts.name.empty()) facts.name = fs::canonical(options.model).filename().string();
  for (char& c : facts.name) {
    const bool safe =
        is_letter_or_digit(c) || c == '.' || c == '_' || c == '-' || (c == '/' && !options.served_name.empty());
    if (!safe) c = '-';
  }
  const ExitLayout& exits = model.exits();
  static_cast<OutputSpec&>(facts) = exits;
  facts.outputs = exits.outputs;
  facts.layers = model.spec().layers;
  for (const ExitSite& site : exits.sites) facts.exits.push_back(site.after);
  facts.max_tokens = max_length;
  facts.vocabulary = model.spec().vocab;
  facts.segments = model.spec().segments;
  facts.texts = texts_per_row(model.folder());
  return facts;
}

Encoding warm_up_text(const Tokenizer& tokenizer, int max_tokens) {
  return tokenizer.encode("warm up", std::nullopt, {.max_length = max_tokens});
}

// Runs one text through every layer before listening: loads the weights and fails early.
void warm_up(Engine& engine, const Tokenizer& tokenizer, int max_tokens) {
  (void)engine.answer(std::vector{warm_up_text(tokenizer, max_tokens)});
}

// About how many texts a second `threads` threads tokenize: what a GPU gets to do is at most that.
double tokenization_rate(const Tokenizer& tokenizer, int max_tokens, int threads) {
  constexpr std::string_view kText = "A film of quiet wit, well played, that keeps its best idea for the last scene.";
  constexpr auto kTime = std::chrono::milliseconds(20);
  int64_t texts = 0;
  const auto start = Clock::now();
  for (; Clock::now() - start < kTime; ++texts) (void)tokenizer.encode(kText, std::nullopt, {.max_length = max_tokens});
  return static_cast<double>(texts * threads) / std::chrono::duration<double>(Clock::now() - start).count();
}

// What is served of what was resolved: the calibrated exits and temperatures in any case, the certified points from the
// policy that runs on only while its certificate holds here.
PolicySettings settings_of(const Resolved& resolved, const ServerOptions& options) {
  PolicySettings settings{.entry = resolved.entry,
                          .chosen = {},
                          .allowed = options.allowed,
                          .max_drop_under_load = options.max_drop_under_load,
                          .promise = resolved.promise,
                          .hashed = false};
  PolicySpec rule = resolved.policy;
  rule.exits.clear();
  rule.temperature.clear();
  rule.score_temperature.clear();
  if (settings.entry) settings.entry->certificate = resolved.certificate;
  if (settings.entry && (resolved.certificate || rule == settings.entry->policy)) {
    std::vector<PolicyPoint>& points = settings.entry->points;
    points.erase(points.begin(),
                 std::ranges::find_if(points, [&](const PolicyPoint& point) { return point.policy == rule; }));
    settings.entry->policy = rule;
  } else if (rule.rule != rule_of<FullRule> || options.policy) {
    settings.chosen = str(rule);
  }
  return settings;
}

uint64_t random_seed() {
  return (uint64_t{std::random_device{}()} << 32) ^ std::random_device{}();
}

// What shadow runs need to know of the model that is served.
struct Served {
  const Checkpoint& model;
  Engine& engine;
  const Tokenizer& tokenizer;
  const ModelFacts& facts;
  const PolicySettings& policies;
};

ShadowLogHead log_head(const Served& served, const EngineOptions& engine) {
  const ExitLayout& exits = served.model.exits();
  ShadowLogHead head;
  static_cast<OutputSpec&>(head) = exits;
  head.weights = weights_sha256(served.model);  // hashed before anything is logged: a log may become a certificate
  head.tokenizer = tokenizer_sha256(served.model.folder());
  head.engine = served.engine.name();
  head.precision = name_of(served.engine.precision());
  head.precision_map = precision_map_sha256(engine.exceptions).value_or("");
  head.numerics = served.engine.traits().numerics;
  head.max_length = served.facts.max_tokens;
  head.last_head = exits.compat_last_ramp;
  head.outputs = exits.outputs;
  head.layers = exit_sites(exits).layers;
  return head;
}

// Loads what shadow runs need, and logs what they cost.
std::unique_ptr<ShadowEngine> prepare_shadows(const Served& served, ServerOptions& options, const Log& log) {
  ShadowOptions& shadow = options.service.shadow;
  if (shadow.share <= 0) return nullptr;
  const auto& entry = served.policies.entry;
  const bool certified = !served.policies.chosen && entry && entry->certificate;
  const Certificate* certificate = certified ? &*entry->certificate : nullptr;
  const LossReference reference = certificate == nullptr ? LossReference::fp32 : certificate->reference;
  const double range = loss_range(certificate, served.facts);
  const ShadowLogHead head = options.shadow_log.empty() ? ShadowLogHead{} : log_head(served, options.engine);
  auto engines = std::make_unique<ShadowEngine>(served.model, served.engine,
                                                ShadowEngineOptions{.reference = reference,
                                                                    .device = options.engine.device,
                                                                    .kernels = options.engine.kernels,
                                                                    .log = options.shadow_log,
                                                                    .log_head = head});
  shadow.seed = random_seed();
  if (!options.shadow_log.empty()) shadow.watch_file = options.shadow_log + ".watch";
  shadow.reference = {
      .pass = [e = engines.get()](const Encoding& text, uint64_t dropped) { return e->pass(text, dropped); },
      .loss =
          certificate == nullptr || !of_one_text(certificate->loss) ? std::nullopt : std::optional(certificate->loss),
      .range = range,
      .bytes = engines->bytes(),
      .logs = engines->logs()};
  if (certificate != nullptr && !of_one_text(certificate->loss))
    log({.message = "shadow runs raise no alarm",
         .fields = {{"loss", name_of(certificate->loss)}, {"why", "a drawn text does not tell what is lost"}}});
  const double usual = entry && !entry->points.empty() ? entry->points.front().cost_fraction : 1;
  const double more = shadow.share * engines->relative_cost(warm_up_text(served.tokenizer, served.facts.max_tokens));
  log({.message = "shadow runs",
       .fields = {{"share", fmt::format("{:g} %", 100 * shadow.share)},
                  {"reference", reference == LossReference::fp32 ? "fp32 at full depth" : "full depth"},
                  {"memory", fmt::format("{:.1f} MiB", static_cast<double>(engines->bytes()) / (1 << 20))},
                  {"processor", fmt::format("about {:.0f} % of the answers'", std::ceil(100 * more / usual))}}});
  return engines;
}

}  // namespace

void check_server_options(const ServerOptions& options) {
  const bool keyed = !options.api_key.empty() || !options.api_key_file.empty();
  const ListenerOptions& listener = options.listener;
  if (listener.unix_socket.empty() && !is_loopback(listener.hostname) && !keyed && !options.insecure_no_auth) {
    throw Error(Code::usage,
                fmt::format("--hostname {}: this address is public, and no API key is set", listener.hostname),
                "give --api-key-file, or --insecure-no-auth if a proxy in front of the server authenticates clients");
  }
  if (listener.tls_certificate.empty() != listener.tls_key.empty()) {
    throw Error(Code::usage, "--tls-cert and --tls-key go together");
  }
  if (!options.shadow_log.empty() && options.service.shadow.share <= 0) {
    throw Error(Code::usage, "--shadow-log needs --shadow", "say which share of the texts to keep, e.g. --shadow 1%");
  }
  if (options.max_drop_under_load > 0 && options.policy) {
    throw Error(Code::usage, "--max-drop-under-load needs the certified points; --policy replaces them",
                "drop one of them");
  }
}

bool run_server(ServerOptions options, const Log& log) {
  check_server_options(options);
  ApiKeys keys = load_keys(options);
  const Checkpoint model = Checkpoint::open(options.model);
  for (const std::string& notice : model.notices()) log({.message = notice, .fields = {}});
  require_heads(model);
  Listener listener(options.listener);  // first, so that a port in use fails at once
  const auto tokenizer = load_tokenizer(model.folder());
  const Resolved resolved =
      resolve(model, {.policy = options.policy.value_or(""),
                      .precision = options.engine.precision,
                      .max_length = options.max_length,
                      .engine = engine_traits(model, options.engine.device, options.engine.kernels),
                      .weights_hashed = false});
  for (const std::string& notice : resolved.notices) log({.message = notice, .fields = {}});
  auto engine = std::make_unique<Engine>(model, engine_options(resolved, options.engine));
  const std::string precision(name_of(engine->precision()));
  ModelFacts facts = facts_of(model, options, resolved.max_length);
  warm_up(*engine, *tokenizer, facts.max_tokens);
  PolicySettings policies = settings_of(resolved, options);
  options.service.access.loopback = options.listener.unix_socket.empty() && is_loopback(options.listener.hostname);
  options.service.precision = precision;
  options.service.engine = engine->name();
  options.service.seed = random_seed();
  const auto shadows = prepare_shadows({model, *engine, *tokenizer, facts, policies}, options, log);
  Runner runner{[e = engine.get()](std::span<Engine::LazyText> texts, const Ask& ask) { return e->submit(texts, ask); },
                [e = engine.get()](const PolicySpec& policy, std::vector<float> rates) {
                  return e->bind(policy, std::move(rates));
                },
                tokenizer.get(), std::string(device_of(engine->name()))};
  if (device_of(engine->name()) != "cpu") {
    const double rate = tokenization_rate(*tokenizer, resolved.max_length, engine->threads());
    log({.message = "tokenization in front of the GPU",
         .fields = {{"threads", fmt::format("{}", engine->threads())},
                    {"texts_per_second", fmt::format("{:.0f}", rate)}}});
  }
  const MemoryReserve reserve;  // only from here on: loading may fail
  Service service(
      {std::move(facts), std::move(runner), [&listener](std::function<void()> work) { listener.post(std::move(work)); },
       log, [&reserve] { return reserve.is_reserved(); }},
      std::move(policies), options.service);
  service.use_keys(std::move(keys));
  listener.install_signal_handlers();  // before the line that tells that it runs
  log({.message = "listening",
       .fields = {{"address", listener.address()},
                  {"model", options.model},
                  {"policy", str(resolved.policy)},
                  {"promise", resolved.promise},
                  {"max_length", fmt::format("{}", resolved.max_length)},
                  {"engine", engine->name()},
                  {"precision", precision},
                  {"threads", fmt::format("{}", engine->threads())}}});
  // Nobody waits for the weights' hash, but nothing is certified before it.
  const std::jthread hashing([&] {
    std::string sha256, error;
    try {
      sha256 = weights_sha256(model);
    } catch (const std::exception& failed) {
      error = failed.what();
    }
    listener.post([&service, sha256, error] { service.weights_hashed(sha256, error); });
  });
  const std::string address = listener.address();
  const bool clean = listener.run(service, log, [&] { service.use_keys(load_keys(options)); });
  service.end_shadows();  // they use the engine
  engine.reset();         // its last answers still go to the service
  log({.message = "stopped", .fields = {{"address", address}}});
  return clean;
}

}  // namespace exeunt::serve
