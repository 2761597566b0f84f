// SPDX-License-Identifier: Apache-2.0
#include "exeunt/serve/service.h"

#include <algorithm>
#include <array>

#include "exeunt/base/version.h"
#include "exeunt/exits/policy_text.h"
#include "exeunt/serve/classify.h"
#include "exeunt/serve/oip.h"
#include "exeunt/serve/pages.h"
#include "exeunt/serve/tei.h"

namespace exeunt::serve {
namespace {

using namespace std::chrono_literals;

HttpResponse json_page(const OrderedJson& value) {
  HttpResponse response;
  response.body = value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
  return response;
}

// Open to all: what load balancers ask, and the playground's files, which hold no data.
bool is_public(const HttpRequest& request) {
  if (request.method != "GET" && request.method != "HEAD" && request.method != "OPTIONS") return false;
  for (const std::string_view path : {"/health", "/ready", "/ping", "/v2/health/live", "/v2/health/ready", "/",
                                      "/favicon.ico", "/playground.css", "/playground.js"}) {
    if (request.path == path) return true;
  }
  return request.method == "OPTIONS";
}

}  // namespace

Service::Service(ServiceParts parts, ServiceOptions options)
    : model_(std::move(parts.model)),
      runner_(std::move(parts.runner)),
      post_(std::move(parts.post)),
      log_(std::move(parts.log)),
      enough_memory_(std::move(parts.enough_memory)),
      options_(std::move(options)),
      policies_(std::move(parts.policies), runner_.bind),
      admission_(options_.admission),
      controller_(policies_.levels()),
      watch_(policies_.promised()),
      ids_(options_.seed),
      started_(Clock::now()),
      last_good_(started_),
      next_canary_(started_ + 30s),
      next_control_(started_) {}

Service::~Service() = default;

RequestNote Service::note_of(const HttpRequest& request) {
  RequestNote note;
  note.begun = Clock::now();
  note.method = request.method;
  note.path = request.path;
  note.origin = request.field("origin");
  note.id = request_id_of(request.field("x-request-id"), ids_);
  if (auto trace = parse_traceparent(request.field("traceparent"))) {
    note.trace = std::move(*trace);
  } else {
    note.trace.trace_id = ids_.hex(32);
  }
  note.trace.span_id = ids_.hex(16);
  return note;
}

std::shared_ptr<Running> Service::handle(HttpRequest&& request, Reply reply) {
  Context context{note_of(request), std::move(reply)};
  Answered answered;
  try {
    answered = route(request, context);
  } catch (...) {
    if (context.running) throw;  // there was no memory to refuse it either
    answered = response_to_exception(context.note);
  }
  if (answered) {
    spare([&] { seal(*answered, context.note); });
    context.reply(std::move(*answered));
    return nullptr;
  }
  return context.running->answered ? nullptr : context.running;
}

// To be called while an exception is handled.
HttpResponse Service::response_to_exception(const RequestNote& note) const {
  try {
    throw;
  } catch (const Refusal& refusal) {
    return refusal_response(refusal, note.id);
  } catch (const std::bad_alloc&) {
    return refusal_response(
        Refusal(503, ErrorType::overloaded, "out of memory", "retry after a moment, or send less at once"), note.id);
  } catch (const std::exception& error) {
    log_({.level = "error", .message = "internal error", .fields = {{"request_id", note.id}, {"why", error.what()}}});
    return refusal_response(Refusal(500, ErrorType::backend, "internal error"), note.id);
  }
}

HttpResponse Service::refuse(const Refusal& refusal) {
  RequestNote note;
  note.begun = Clock::now();
  note.id = ids_.hex(16);
  HttpResponse response = refusal_response(refusal, note.id);
  response.close = true;
  ++metrics_.rejected["framing"];
  seal(response, note);
  return response;
}

void Service::note_interruption(const char* why) noexcept {
  ++metrics_.interruptions;
  spare([&] { log_({.level = "error", .message = "went on after a failure", .fields = {{"why", why}}}); });
}

// What every response carries, and what every response is counted and logged by.
void Service::seal(HttpResponse& response, const RequestNote& note) {
  response.fields.emplace_back("x-request-id", note.id);
  if (!note.trace.trace_id.empty()) response.fields.emplace_back("traceparent", note.trace.traceparent());
  response.fields.emplace_back("x-content-type-options", "nosniff");
  response.head_only = note.method == "HEAD";
  if (!note.origin.empty()) {
    const auto& known = options_.cors_origins;
    const bool any = std::find(known.begin(), known.end(), "*") != known.end();
    if (any || std::find(known.begin(), known.end(), note.origin) != known.end()) {
      response.fields.emplace_back("access-control-allow-origin", any ? "*" : note.origin);
      response.fields.emplace_back("vary", "Origin");
    }
  }
  ++metrics_.responses[response.status];
  const double seconds = std::chrono::duration<double>(Clock::now() - note.begun).count();
  metrics_.duration.add(seconds);
  if (!options_.log_requests && response.status < 500) return;
  LogEntry entry{.level = response.status >= 500 ? "error" : "info", .message = "request", .fields = {}};
  entry.fields = {{"method", note.method},
                  {"path", note.path.substr(0, 256)},  // a line stays short enough to be written at once
                  {"status", fmt::format("{}", response.status)},
                  {"ms", fmt::format("{:.3f}", seconds * 1000)},
                  {"request_id", note.id}};
  if (!note.trace.trace_id.empty()) {
    entry.fields.emplace_back("trace_id", note.trace.trace_id);
    entry.fields.emplace_back("span_id", note.trace.span_id);
    if (!note.trace.parent_id.empty()) entry.fields.emplace_back("parent_id", note.trace.parent_id);
  }
  log_(entry);
}

Service::Answered Service::route(HttpRequest& request, Context& context) {
  if (keys_.required() && !is_public(request) && !keys_.allow(request.field("authorization"))) {
    ++metrics_.rejected["key"];
    throw Refusal(401, ErrorType::validation, "a valid API key is required", "send 'Authorization: Bearer KEY'");
  }
  if (request.method == "OPTIONS") {
    HttpResponse response{.status = 204, .type = {}};
    response.fields = {{"allow", "GET, HEAD, POST, OPTIONS"},
                       {"access-control-allow-methods", "GET, POST"},
                       {"access-control-allow-headers", "authorization, content-type, x-request-id, traceparent"},
                       {"access-control-max-age", "600"}};
    return response;
  }
  if (request.path == "/v2" || request.path.starts_with("/v2/")) return route_oip(request, context);

  const bool get = request.method == "GET" || request.method == "HEAD", post = request.method == "POST";
  constexpr std::array<std::pair<std::string_view, Parse>, 5> posts = {{{"/predict", parse_predict},
                                                                        {"/", parse_predict},
                                                                        {"/invocations", parse_predict},
                                                                        {"/rerank", parse_rerank},
                                                                        {"/classify", parse_classify}}};
  const auto known = std::find_if(posts.begin(), posts.end(), [&](const auto& p) { return p.first == request.path; });
  if (post && known != posts.end()) return start(request, context, known->second);
  if (Answered page = route_get(request)) {
    if (get) return page;
    throw Refusal(405, ErrorType::validation, fmt::format("{} is read with GET", request.path));
  }
  if (known != posts.end()) throw Refusal(405, ErrorType::validation, fmt::format("{} takes POST", request.path));
  throw Refusal(404, ErrorType::validation, "no such route", "see /openapi.json");
}

Service::Answered Service::route_get(const HttpRequest& request) const {
  const std::string& path = request.path;
  if (path == "/health") return health(false);
  if (path == "/ready" || path == "/ping") return health(true);
  if (path == "/info") return info_page();
  if (path == "/metrics") return metrics_page();
  if (path == "/openapi.json" || path == "/api-doc/openapi.json") {
    HttpResponse response;
    response.body = openapi_text();
    return response;
  }
  if (path == "/" && !list_holds(request.field("accept"), "text/html")) return health(false);
  return playground_page(path, request.field("if-none-match"));
}

Service::Answered Service::route_oip(HttpRequest& request, Context& context) {
  std::string_view path = request.path;
  const bool get = request.method == "GET" || request.method == "HEAD";
  const auto want = [&](bool fits) {
    if (!fits) throw Refusal(405, ErrorType::validation, "the route exists, and takes another method");
  };
  if (path == "/v2") {
    want(get);
    OrderedJson out;
    out["name"] = "exeunt";
    out["version"] = version();
    out["extensions"] = OrderedJson::array();
    return json_page(out);
  }
  if (path == "/v2/health/live" || path == "/v2/health/ready") {
    want(get);
    return health(path == "/v2/health/ready");
  }
  constexpr std::string_view models = "/v2/models/";
  if (!path.starts_with(models)) throw Refusal(404, ErrorType::validation, "no such route", "see /openapi.json");
  path.remove_prefix(models.size());
  if (!path.starts_with(model_.name) || (path.size() > model_.name.size() && path[model_.name.size()] != '/')) {
    throw Refusal(404, ErrorType::validation, "no model of that name is served here",
                  fmt::format("the model is '{}'", model_.name));
  }
  path.remove_prefix(model_.name.size());
  if (constexpr std::string_view one = "/versions/1"; path.starts_with(one)) path.remove_prefix(one.size());
  if (path == "/infer") {
    want(request.method == "POST");
    return start(request, context, parse_infer);
  }
  if (path.empty() || path == "/ready") {
    want(get);
    if (path.empty()) return json_page(oip_model_metadata(model_));
    HttpResponse response = health(true);
    if (response.status == 200) response.body = OrderedJson({{"name", model_.name}, {"ready", true}}).dump();
    return response;
  }
  throw Refusal(404, ErrorType::validation, "no such route or version", "see /openapi.json");
}

HttpResponse Service::health(bool ready) const {
  if (!healthy()) throw Refusal(503, ErrorType::unhealthy, "unhealthy: the engine does not answer");
  if (ready && draining_) throw Refusal(503, ErrorType::unhealthy, "not ready: the server is shutting down");
  OrderedJson out;
  out["status"] = "ok";
  out["live"] = true;
  out["ready"] = !draining_;
  return json_page(out);
}

HttpResponse Service::metrics_page() const {
  const auto& policy = default_policy();
  Metrics::Now now;
  now.queue_texts = admission_.texts();
  now.queue_bytes = admission_.bytes();
  now.policy = str(policy->spec);
  now.threshold = static_cast<double>(policy->spec.params[0]);
  now.level = controller_.level();
  now.epsilon = tightened_ ? 0 : policies_.epsilon(controller_.level());
  now.shadows = watch_.texts();
  now.disagreements = watch_.disagreements();
  now.shadows_skipped = shadows_skipped_;
  now.agreement = watch_.agreement();
  now.alarm = alarmed_;
  now.ready = healthy() && !draining_;
  now.uptime_seconds = std::chrono::duration<double>(Clock::now() - started_).count();
  now.resident_bytes = resident_bytes();
  HttpResponse response;
  response.type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics_.text(now, options_.tei_metrics);
  return response;
}

HttpResponse Service::info_page() const {
  OrderedJson out;
  out["model_id"] = model_.name;
  out["model_sha"] = options_.weights;
  out["model_dtype"] = options_.precision;
  OrderedJson label2id = OrderedJson::object(), id2label = OrderedJson::object();
  for (int i = 0; i < model_.outputs; ++i) {
    id2label[std::to_string(i)] = model_.label(i);
    label2id[model_.label(i)] = i;
  }
  out["model_type"] = {
      {model_.outputs == 1 ? "reranker" : "classifier", {{"id2label", id2label}, {"label2id", label2id}}}};
  out["max_concurrent_requests"] = options_.admission.requests;
  out["max_input_length"] = model_.max_tokens;
  out["max_client_batch_size"] = options_.max_client_batch;
  out["auto_truncate"] = options_.auto_truncate;
  out["version"] = version();
  out["engine"] = options_.engine;
  out["layers"] = model_.layers;
  out["exits"] = model_.exits;
  out["regression"] = model_.regression;
  out["policy"] = str(default_policy()->spec);
  out["allowed_policies"] = policies_.allowed();
  out["certified"] = policies_.certified() && !tightened_;
  OrderedJson points = OrderedJson::array();
  if (const auto& entry = policies_.entry()) {
    for (const PolicyPoint& point : entry->points) {
      points.push_back(
          {{"policy", str(point.policy)}, {"epsilon", point.epsilon}, {"cost_fraction", point.cost_fraction}});
    }
    if (entry->certificate) {
      out["certificate"] = {{"loss", name_of(entry->certificate->loss)},
                            {"epsilon", entry->certificate->epsilon},
                            {"delta", entry->certificate->delta},
                            {"rows", entry->certificate->rows},
                            {"created", entry->certificate->created}};
    }
  }
  out["points"] = points;
  return json_page(out);
}

}  // namespace exeunt::serve
