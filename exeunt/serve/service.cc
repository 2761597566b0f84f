// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/service.h"

#include <algorithm>
#include <array>
#include <set>

#include "exeunt/base/process.h"
#include "exeunt/base/sha256.h"
#include "exeunt/base/version.h"
#include "exeunt/policy/policy_text.h"

namespace exeunt::serve {
namespace {

constexpr size_t kSmallResponse = 16 << 10;  // as much as a connection may take anyway

HttpResponse json_page(const OrderedJson& value) {
  HttpResponse response;
  response.body = value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  return response;
}

// Open without a key: health checks, and the playground's files, which hold no data.
bool is_public(const HttpRequest& request) {
  if (request.method != "GET" && request.method != "HEAD" && request.method != "OPTIONS") return false;
  for (const std::string_view path : {"/health", "/ready", "/ping", "/v2/health/live", "/v2/health/ready", "/",
                                      "/favicon.ico", "/playground.css", "/playground.js"}) {
    if (request.path == path) return true;
  }
  return request.method == "OPTIONS";
}

// A file of the playground by its path, with the fields that keep a browser from running anything else.
std::optional<HttpResponse> playground_page(std::string_view path, std::string_view if_none_match) {
  struct File {
    std::string_view path, asset, type;
    std::string tag = '"' + sha256_hex(serve_asset(asset)).substr(0, 16) + '"';
  };
  static const std::array<File, 3> files = {{{"/", "playground.html", "text/html; charset=utf-8"},
                                             {"/playground.css", "playground.css", "text/css; charset=utf-8"},
                                             {"/playground.js", "playground.js", "text/javascript; charset=utf-8"}}};
  if (path == "/favicon.ico") return HttpResponse{.status = 204, .type = {}};  // browsers ask; there is none
  for (const File& file : files) {
    if (file.path != path) continue;
    HttpResponse response;
    response.type = file.type;
    response.fields = {{"etag", file.tag},
                       {"cache-control", "no-cache"},  // revalidated each time, and answered with 304
                       {"content-security-policy",
                        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
                        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
                       {"referrer-policy", "no-referrer"},
                       {"cross-origin-opener-policy", "same-origin"}};
    if (if_none_match == file.tag) {
      response.status = 304;
    } else {
      response.page = serve_asset(file.asset);
    }
    return response;
  }
  return std::nullopt;
}

}  // namespace

Service::Service(ServiceContext context, PolicySettings policies, ServiceOptions options)
    : context_(std::move(context)),
      options_(std::move(options)),
      policies_(std::move(policies), context_.runner.bind),
      fixed_info_(fixed_info()),
      ids_(options_.seed),
      started_(Clock::now()),
      canary_(context_, started_),
      shadow_(context_, policies_, options_.shadow),
      jobs_({context_, policies_, canary_, shadow_,
             [this](HttpResponse& response, const RequestInfo& info) { complete_response(response, info); }},
            options_.jobs) {}

RequestInfo Service::info_of(const HttpRequest& request) {
  RequestInfo info;
  info.begun = Clock::now();
  info.method = request.method;
  info.path = request.path;
  info.peer = request.peer;
  info.origin = request.field("origin");
  info.id = request_id_of(request.field("x-request-id"), ids_);
  if (auto trace = parse_traceparent(request.field("traceparent"))) {
    info.trace = std::move(*trace);
  } else {
    info.trace.trace_id = ids_.hex(32);
  }
  info.trace.span_id = ids_.hex(16);
  return info;
}

std::shared_ptr<ActiveRequest> Service::handle(HttpRequest&& request, Reply reply) {
  Incoming incoming{info_of(request), std::move(reply)};
  Answered answered;
  try {
    answered = route(request, incoming);
  } catch (...) {
    if (incoming.active) throw;  // no memory even to refuse it
    answered = exception_response(context_.log, incoming.info.id);
  }
  if (answered) {
    best_effort([&] { complete_response(*answered, incoming.info); });
    incoming.reply(std::move(*answered));
    return nullptr;
  }
  return incoming.active->answered ? nullptr : incoming.active;
}

std::optional<HttpResponse> Service::refuse_body(const HttpRequest& head, size_t declared) {
  try {
    check_access(head);
    check_content_type(head);
    if (const auto full = jobs_.admission().full(declared)) throw jobs_.overloaded(*full);
    return std::nullopt;
  } catch (const Refusal& refusal) {
    const RequestInfo info = info_of(head);
    HttpResponse response = refusal_response(refusal, info.id);
    response.close = true;  // what follows is not read
    complete_response(response, info);
    return response;
  }
}

HttpResponse Service::refuse(const Refusal& refusal, const std::string& peer) {
  RequestInfo info;
  info.peer = peer;
  info.begun = Clock::now();
  info.id = ids_.hex(16);
  HttpResponse response = refusal_response(refusal, info.id);
  response.close = true;
  ++context_.metrics.rejected["framing"];
  complete_response(response, info);
  return response;
}

void Service::drain() noexcept {
  draining_ = true;
  shadow_.stop();
}

Clock::time_point Service::wake_at() const {
  return std::min({canary_.wake_at(), jobs_.wake_at(), policies_.adapt_at(in_flight() > 0)});
}

void Service::wake(Clock::time_point now) {
  jobs_.wake(now);
  policies_.adapt(now, jobs_.admission().fill());
  canary_.wake(now);
}

void Service::note_interruption(const char* why) noexcept {
  ++context_.metrics.interruptions;
  best_effort([&] {
    context_.log({.level = "error", .message = "continued after a failure", .fields = {{"why", why}}});
  });
}

// Charges a response until it is sent, and closes the slowest connections to make room. Small ones are not charged:
// errors, and what monitors the server.
bool Service::admit_response(HttpResponse& response) {
  if (response.body.capacity() <= kSmallResponse) return true;
  auto held = std::make_shared<HeldBytes>(jobs_.admission());
  while (!held->add(response.body.capacity())) {
    if (!close_slowest_ || !close_slowest_()) return false;
  }
  response.held = std::move(held);
  return true;
}

// Admission, headers, counters and log line of every response.
void Service::complete_response(HttpResponse& response, const RequestInfo& info) {
  if (!admit_response(response)) response = refusal_response(jobs_.overloaded("bytes"), info.id);
  response.fields.emplace_back("x-request-id", info.id);
  if (!info.trace.trace_id.empty()) response.fields.emplace_back("traceparent", info.trace.traceparent());
  response.fields.emplace_back("x-content-type-options", "nosniff");
  response.head_only = info.method == "HEAD";
  if (!info.origin.empty()) {
    const auto& known = options_.access.origins;
    const bool any = std::ranges::find(known, "*") != known.end();
    if (any || std::ranges::find(known, info.origin) != known.end()) {
      response.fields.emplace_back("access-control-allow-origin", any ? "*" : info.origin);
      response.fields.emplace_back("vary", "Origin");
    }
  }
  ++context_.metrics.responses[response.status];
  const double seconds = std::chrono::duration<double>(Clock::now() - info.begun).count();
  context_.metrics.duration.add(seconds);
  if (!options_.log_requests && response.status < 500) return;
  LogEntry entry{.level = response.status >= 500 ? "error" : "info", .message = "request", .fields = {}};
  entry.fields = {{"method", info.method},
                  {"path", info.path.substr(0, 256)},  // keeps the line short enough to be written at once
                  {"status", fmt::format("{}", response.status)},
                  {"ms", fmt::format("{:.3f}", seconds * 1000)},
                  {"request_id", info.id}};
  if (options_.log_peers && !info.peer.empty()) entry.fields.emplace_back("peer", info.peer);
  if (!info.trace.trace_id.empty()) {
    entry.fields.emplace_back("trace_id", info.trace.trace_id);
    entry.fields.emplace_back("span_id", info.trace.span_id);
    if (!info.trace.parent_id.empty()) entry.fields.emplace_back("parent_id", info.trace.parent_id);
  }
  context_.log(entry);
}

// Who may send this at all.
void Service::check_access(const HttpRequest& request) {
  const char* reason = "host";
  try {
    check_host(request, options_.access);
    reason = "origin";
    if (request.method != "OPTIONS") check_origin(request, options_.access);
    reason = "key";
    if (keys_.required() && !is_public(request) && !has_key(request)) {
      throw Refusal(401, ErrorType::validation, "a valid API key is required", "send 'Authorization: Bearer KEY'");
    }
  } catch (const Refusal&) {
    ++context_.metrics.rejected[reason];
    throw;
  }
}

Service::Answered Service::route(HttpRequest& request, Incoming& incoming) {
  check_access(request);
  if (request.method == "OPTIONS") {
    HttpResponse response{.status = 204, .type = {}};
    response.fields = {{"allow", "GET, HEAD, POST, OPTIONS"},
                       {"access-control-allow-methods", "GET, POST"},
                       {"access-control-allow-headers", "authorization, content-type, x-request-id, traceparent"},
                       {"access-control-max-age", "600"}};
    return response;
  }
  const bool oip = request.path == "/v2" || request.path.starts_with("/v2/");
  if (oip && request.path != "/v2/rerank") return route_oip(request, incoming);

  const bool get = request.method == "GET" || request.method == "HEAD", post = request.method == "POST";
  constexpr std::array<std::pair<std::string_view, ParseJob>, 7> posts = {{{"/predict", parse_predict},
                                                                           {"/", parse_text_classification},
                                                                           {"/invocations", parse_predict},
                                                                           {"/rerank", parse_rerank},
                                                                           {"/v1/rerank", parse_rerank_documents},
                                                                           {"/v2/rerank", parse_rerank_documents},
                                                                           {"/classify", parse_classify}}};
  const auto known = std::ranges::find_if(posts, [&](const auto& p) { return p.first == request.path; });
  if (post && known != posts.end()) {
    jobs_.start(request, incoming, known->second);
    return std::nullopt;
  }
  if (Answered page = route_get(request)) {
    if (get) return page;
    throw Refusal(405, ErrorType::validation, fmt::format("{} takes GET", request.path));
  }
  if (known != posts.end()) throw Refusal(405, ErrorType::validation, fmt::format("{} takes POST", request.path));
  throw Refusal(404, ErrorType::validation, "no such route",
                "classifiers are asked at /predict, rerankers at /rerank; /openapi.json lists all routes");
}

Service::Answered Service::route_get(const HttpRequest& request) const {
  const std::string& path = request.path;
  if (path == "/health") return health(false);
  if (path == "/ready" || path == "/ping") return health(true);
  if (path == "/info") return info_page();
  if (path == "/metrics") return metrics_page();
  if (path == "/v1/models") return models_page();
  if (path == "/openapi.json" || path == "/api-doc/openapi.json") {
    HttpResponse response;
    response.page = serve_asset("openapi.json");
    return response;
  }
  if (path == "/" && !list_contains(request.field("accept"), "text/html")) return health(false);
  return playground_page(path, request.field("if-none-match"));
}

Service::Answered Service::route_oip(HttpRequest& request, Incoming& incoming) {
  std::string_view path = request.path;
  const bool get = request.method == "GET" || request.method == "HEAD";
  const auto want = [&](bool fits) {
    if (!fits) throw Refusal(405, ErrorType::validation, "the route takes another method");
  };
  if (path == "/v2") {
    want(get);
    return json_page({{"name", "exeunt"}, {"version", version()}, {"extensions", OrderedJson::array()}});
  }
  if (path == "/v2/health/live" || path == "/v2/health/ready") {
    want(get);
    return health(path == "/v2/health/ready");
  }
  constexpr std::string_view models = "/v2/models/";
  if (!path.starts_with(models)) throw Refusal(404, ErrorType::validation, "no such route", "see /openapi.json");
  path.remove_prefix(models.size());
  if (!path.starts_with(context_.model.name) ||
      (path.size() > context_.model.name.size() && path[context_.model.name.size()] != '/')) {
    throw Refusal(404, ErrorType::validation, "unknown model", fmt::format("the model is '{}'", context_.model.name));
  }
  path.remove_prefix(context_.model.name.size());
  if (constexpr std::string_view one = "/versions/1"; path.starts_with(one)) path.remove_prefix(one.size());
  if (path == "/infer") {
    want(request.method == "POST");
    jobs_.start(request, incoming, parse_infer);
    return std::nullopt;
  }
  if (path.empty() || path == "/ready") {
    want(get);
    if (path.empty()) return json_page(oip_model_metadata(context_.model));
    HttpResponse response = health(true);
    if (response.status == 200) response.body = OrderedJson({{"name", context_.model.name}, {"ready", true}}).dump();
    return response;
  }
  throw Refusal(404, ErrorType::validation, "no such route or version", "see /openapi.json");
}

HttpResponse Service::health(bool ready) const {
  if (!healthy()) throw unhealthy();
  if (ready && draining_) throw Refusal(503, ErrorType::unhealthy, "not ready: the server is shutting down");
  return json_page({{"status", "ok"}, {"live", true}, {"ready", !draining_}});
}

HttpResponse Service::metrics_page() const {
  const PolicySpec& policy = policies_.current()->spec;
  Metrics::Now now;
  now.queue_texts = jobs_.admission().texts();
  now.queue_bytes = jobs_.admission().bytes();
  now.policy = str(policy);
  now.threshold = static_cast<double>(policy.params[0]);
  now.level = policies_.level();
  now.max_drop = policies_.max_drop();
  if (const auto point = policies_.point_of(*policies_.current()))
    now.calibrated_exits = policies_.calibrated_exits(*point);
  now.shadows = shadow_.report();
  now.processor_seconds = processor_seconds();
  now.ready = healthy() && !draining_;
  now.uptime_seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  now.resident_bytes = resident_bytes();
  HttpResponse response;
  response.type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = context_.metrics.text(now, options_.tei_metrics);
  return response;
}

void Service::weights_hashed(std::string sha256, const std::string& error) {
  options_.weights = std::move(sha256);
  fixed_info_ = fixed_info();
  policies_.weights_hashed(error.empty());
  if (error.empty()) {
    context_.log({.message = "weights hashed", .fields = {{"promise", policies_.promise()}}});
  } else {
    context_.log({.level = "error", .message = "nothing is certified", .fields = {{"reason", error}}});
  }
}

// The part of /info that seldom changes, as an object without its end: a model may have many labels.
std::string Service::fixed_info() const {
  OrderedJson out;
  out["model_id"] = context_.model.name;
  out["model_sha"] = options_.weights.empty() ? OrderedJson() : OrderedJson(options_.weights);
  out["model_dtype"] = options_.precision;
  // Not with operator[], which looks for the key among all others.
  OrderedJson::object_t label2id, id2label;
  std::set<std::string> seen;
  for (int i = 0; i < context_.model.outputs; ++i) {
    const std::string label = context_.model.label(i);
    id2label.emplace_back(std::to_string(i), label);
    if (seen.insert(label).second) label2id.emplace_back(label, i);
  }
  out["model_type"] = {
      {context_.model.outputs == 1 ? "reranker" : "classifier", {{"id2label", id2label}, {"label2id", label2id}}}};
  out["max_concurrent_requests"] = options_.jobs.admission.requests;
  out["max_input_length"] = context_.model.max_tokens;
  out["max_client_batch_size"] = options_.jobs.max_client_batch;
  out["auto_truncate"] = options_.jobs.auto_truncate;
  out["version"] = version();
  out["engine"] = options_.engine;
  out["layers"] = context_.model.layers;
  out["exits"] = context_.model.exits;
  out["regression"] = context_.model.problem == Problem::regression;
  out["texts"] = context_.model.texts;
  out["example"] = nullptr;
  if (const auto& example = options_.example) {
    out["example"] = {{"text", example->text}, {"pair", example->pair ? OrderedJson(*example->pair) : OrderedJson()}};
  }
  std::string text = out.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  text.back() = ',';
  return text;
}

// As vLLM lists its models.
HttpResponse Service::models_page() const {
  const std::string& name = context_.model.name;
  const OrderedJson permission{{"id", fmt::format("modelperm-{}", name)},
                               {"object", "model_permission"},
                               {"created", created_},
                               {"allow_create_engine", false},
                               {"allow_sampling", false},
                               {"allow_logprobs", false},
                               {"allow_search_indices", false},
                               {"allow_view", true},
                               {"allow_fine_tuning", false},
                               {"organization", "*"},
                               {"group", nullptr},
                               {"is_blocking", false}};
  const OrderedJson model{{"id", name},
                          {"object", "model"},
                          {"created", created_},
                          {"owned_by", "exeunt"},
                          {"root", name},
                          {"parent", nullptr},
                          {"max_model_len", context_.model.max_tokens},
                          {"permission", OrderedJson::array({permission})}};
  return json_page({{"object", "list"}, {"data", OrderedJson::array({model})}});
}

HttpResponse Service::info_page() const {
  OrderedJson out;
  out["policy"] = str(policies_.current()->spec);
  out["allowed_policies"] = policies_.allowed();
  out["certified"] = policies_.certified();
  out["promise"] = policies_.promise();
  OrderedJson points = OrderedJson::array();
  if (const auto& entry = policies_.entry()) {
    for (const PolicyPoint& point : entry->points) {
      points.push_back(
          {{"policy", str(point.policy)}, {"max_drop", point.max_drop}, {"cost_fraction", point.cost_fraction}});
    }
    if (entry->certificate && policies_.hashed()) {
      out["certificate"] = {{"loss", name_of(entry->certificate->loss)},
                            {"max_drop", entry->certificate->max_drop},
                            {"delta", entry->certificate->delta},
                            {"rows", entry->certificate->rows},
                            {"created", entry->certificate->created}};
    }
  }
  out["points"] = points;
  out["watched"] = OrderedJson::array();
  for (const Metrics::WatchedPoint& point : shadow_.report().points) {
    const auto or_null = [](std::optional<double> value) { return value ? OrderedJson(*value) : OrderedJson(); };
    out["watched"].push_back({{"policy", point.policy},
                              {"certified", or_null(policies_.hashed() ? point.watch.max_drop() : std::nullopt)},
                              {"texts", point.watch.texts()},
                              {"losses", point.watch.losses()},
                              {"dropped", point.watch.dropped()},
                              {"covered", point.watch.upper_bound().has_value()},
                              {"upper_bound", or_null(point.watch.upper_bound())},
                              {"confidence", PromiseWatch::kConfidence},
                              {"alarm", point.watch.alarm()}});
  }
  HttpResponse response = json_page(out);
  response.body.replace(0, 1, fixed_info_);
  return response;
}

}  // namespace exeunt::serve
