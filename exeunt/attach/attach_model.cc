// SPDX-License-Identifier: Apache-2.0
#include "exeunt/attach/attach_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <set>
#include <tuple>

#include <fmt/ranges.h>
#include <unistd.h>

#include "exeunt/attach/exit_0.h"
#include "exeunt/base/error.h"
#include "exeunt/base/fields.h"
#include "exeunt/base/files.h"
#include "exeunt/base/sha256.h"
#include "exeunt/base/version.h"
#include "exeunt/certify/calibrate_model.h"
#include "exeunt/certify/certify_model.h"
#include "exeunt/certify/losses.h"
#include "exeunt/certify/risk.h"
#include "exeunt/certify/thresholds.h"
#include "exeunt/certify/tries.h"
#include "exeunt/data/learned_rows.h"
#include "exeunt/engine/resolve.h"
#include "exeunt/eval/label_names.h"
#include "exeunt/eval/make_trace.h"
#include "exeunt/eval/model_card.h"
#include "exeunt/eval/model_policy.h"
#include "exeunt/model/exeunt_folder.h"
#include "exeunt/policy/promise.h"

namespace exeunt {
namespace fs = std::filesystem;
namespace {

constexpr double kHeldOut = 0.4, kMostHeldOut = 0.7;  // share of the texts that is not learned,
constexpr double kEnough = 20000;                     // or so many of them, unless a promise takes more
constexpr SplitShares kHeldOutShares{};               // and how that is divided
constexpr double kRoom = 1.5;                         // rows to certify with, over those needed where none has a loss
constexpr size_t kFewest = 50;                        // texts to learn from
constexpr size_t kSearch = 128;                       // texts that search for matrices to keep wider, in many passes
constexpr size_t kManyLabels = 10;
constexpr double kRate = 1e-3, kHighRate = 3e-3;  // of the exits; the high one for values and many labels

using Seconds = std::chrono::duration<double>;
constexpr const char* kAttachFile = "attach.json";

// attach.json beside a model whose exits were attached: from which weights, texts and settings they were trained.
struct AttachRecord {
  std::string format = "exeunt.attach/1";
  std::string weights = {}, family = {}, texts = {};  // the finished model's weights
  int64_t rows = 0, learned = 0, chosen = 0, certified = 0, reported = 0;
  int max_length = 0, texts_per_row = 1;
  std::string engine = {}, precision = {};
  HeadSettings heads = {};
  int64_t exit_0_bytes = 0;
  std::string tool = {}, created = {};

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{"format", "`exeunt.attach/1`"}, self.format);
    visit(Field{"weights", "SHA-256 of the finished model's weights, as model.safetensors has them"}, self.weights);
    visit(Field{"family", "Models whose tries to certify are counted together: of the training data, else `weights`"},
          self.family);
    visit(Field{"texts", "SHA-256 over the files of texts"}, self.texts);
    visit(Field{"rows", "Rows in these files"}, self.rows);
    visit(Field{"learned", "Distinct training texts"}, self.learned);
    visit(Field{"chosen", "… validation texts, which chose settings"}, self.chosen);
    visit(Field{"certified", "… certification texts"}, self.certified);
    visit(Field{"reported", "… test texts"}, self.reported);
    visit(Field{"max_length", "Tokens of a text at most"}, self.max_length);
    visit(Field{"texts_per_row", "1, or 2 for pairs of texts"}, self.texts_per_row);
    visit(Field{"engine", "Which ran the frozen model"}, self.engine);
    visit(Field{"precision", "… and in which precision"}, self.precision);
    HeadSettings::fields(self.heads, visit);
    visit(Field{"exit_0_bytes", "Of the table of exit 0 at most; 0: it was not wanted"}, self.exit_0_bytes);
    visit(Field{"tool", "Version of exeunt"}, self.tool);
    visit(Field{"created", "RFC 3339"}, self.created);
  }
};

// Whether the new folder may be written is better known before the work than after it. `force` replaces no folder but a
// model's.
void require_place(const fs::path& out, bool force) {
  if (path_exists(out) && !force) {
    throw Error(Code::usage, fmt::format("{}: already exists", out.string()), "choose another --out or add --force");
  }
  if (path_exists(out) && (!fs::is_directory(out) || (!fs::is_empty(out) && !path_exists(out / kConfigFile)))) {
    throw Error(Code::usage,
                fmt::format("{}: got something that is not a model, which --force does not replace", out.string()),
                "choose another --out");
  }
  fs::path above = fs::absolute(out).lexically_normal().parent_path();
  while (!path_exists(above) && above != above.parent_path()) above = above.parent_path();
  if (!fs::is_directory(above) || ::access(above.c_str(), W_OK | X_OK) != 0) {
    throw Error(
        Code::resources,
        fmt::format("{}: cannot be written: {} is not a folder that may be changed", out.string(), above.string()),
        "choose another --out");
  }
}

void require_attachable(const Checkpoint& model, const AttachJob& job) {
  const auto& sites = model.exits().sites;
  require_value_range(model.exits().problem == Problem::regression, model.exits().range, job.plan.range);
  const std::string name = model.folder().string();
  if (sites.size() > 1 && !job.force) {
    throw Error(Code::usage, fmt::format("{}: the model has {} exits already", name, sites.size()),
                "to certify them: exeunt calibrate MODEL; to replace all but the last by new ones, add --force");
  }
  if (model.spec().layers < 2) {
    throw Error(Code::bad_file, fmt::format("{}: got a model of one layer, want two or more", name));
  }
  require_place(job.out, job.force);
}

// Labelled rows, if there are any. A model without names for its labels gets those of the data.
std::optional<Dataset> labelled_rows(const AttachJob& job, Checkpoint& model, const Observer& observer) {
  if (job.labelled.path.empty()) return std::nullopt;
  Dataset data = data_for({.data = job.labelled}, model, observer);
  model =
      model.with_labels(label_names(model.exits(), model.spec().family, job.labelled.columns.labels, data, observer));
  require_same_problem(model, data);
  if (data.labelled && data.problem != Problem::regression) reorder_labels(data, model.exits().labels);
  return data;
}

// A model that always answers the same would learn exits that do, and certify them.
void require_different_answers(std::span<const float> logits, const ExitLayout& exits) {
  const auto width = static_cast<size_t>(exits.outputs);
  const auto answer = [&](size_t row) { return answer_of(exits, logits.subspan(row * width, width)); };
  for (size_t row = 1; row * width < logits.size(); ++row) {
    if (answer(row) != answer(0)) return;
  }
  throw Error(Code::failure,
              fmt::format("the model answers '{}' to every text",
                          answer_text(exits, logits.first(width), {.none = "no label", .value = "{:g}"})),
              "bring texts of every class the model knows");
}

void reorder(DrawnTexts& drawn, std::span<const size_t> order) {
  std::vector<Example> texts;
  std::vector<Encoding> tokens;
  for (const size_t i : order) {
    texts.push_back(std::move(drawn.texts[i]));
    tokens.push_back(std::move(drawn.tokens[i]));
  }
  drawn.texts = std::move(texts);
  drawn.tokens = std::move(tokens);
}

// Texts that the model was trained on tell little of new ones: they go to the front, to train the exits. Returns how
// many they are.
size_t put_known_first(const LearnedRows& learned, const Tokenizer& tokenizer, int max_length, DrawnTexts& drawn) {
  std::vector<size_t> first, then;
  std::vector<bool> seen;
  std::set<std::string_view> clusters;  // of known texts: no other text of theirs is new
  for (size_t i = 0; i < drawn.texts.size(); ++i) {
    const Overlap overlap = overlap_of(learned, drawn.tokens[i], max_length, [&](int length) {
      return tokenizer.encode(drawn.texts[i].text, drawn.texts[i].pair, {.max_length = length});
    });
    seen.push_back(overlap != Overlap::none);
    if (seen.back()) clusters.insert(cluster_of(drawn.texts[i]));
  }
  clusters.erase("");
  for (size_t i = 0; i < drawn.texts.size(); ++i)
    (seen[i] || clusters.contains(cluster_of(drawn.texts[i])) ? first : then).push_back(i);
  const size_t known = first.size();
  first.insert(first.end(), then.begin(), then.end());
  reorder(drawn, first);
  return known;
}

void report_overlap(const LearnedRows& learned, std::span<const Encoding> certify, const Observer& observer) {
  size_t inside = 0;
  for (const Encoding& text : certify) inside += learned.overlap(text.ids) == Overlap::none ? 0 : 1;
  const double share = static_cast<double>(inside) / static_cast<double>(certify.size());
  if (share < 0.05) return;
  observer.notice(
      fmt::format("{:.0f} % of the certification texts overlap with training texts: on texts that do not, more answers "
                  "may differ",
                  100 * share));
}

// Rows with a label; all of a part where every row has one.
ExitTrace labelled_part(const ExitTrace& trace) {
  std::vector<size_t> rows;
  for (size_t row = 0; row < trace.rows; ++row) {
    if (!std::isnan(trace.gold[row * trace.gold_width()])) rows.push_back(row);
  }
  return select_rows(trace, rows);
}

std::vector<ExitReport> exit_reports(const ExitTrace& report) {
  std::vector<ExitReport> out;
  const ExitTrace labelled = labelled_part(report);
  std::vector<ExitScore> scores;
  if (labelled.rows > 0) scores = Scorer(labelled).each_exit();
  for (int exit = 0; exit < report.exits; ++exit) {
    double sum = 0;
    for (size_t row = 0; row < report.rows; ++row) {
      const std::span<const float> early = report.at(row, exit), full = report.at(row, report.exits - 1);
      sum += report.info.problem == Problem::regression ? std::abs(early[0] - full[0])
                                                        : same_answer(report.info, early, full);
    }
    ExitReport line{.layer = report.info.layers[static_cast<size_t>(exit)],
                    .agreement = sum / static_cast<double>(report.rows)};
    if (!scores.empty()) line.metrics = scores[static_cast<size_t>(exit)].metrics;
    out.push_back(std::move(line));
  }
  return out;
}

// The values that each row gets: at full depth, or by a policy.
std::vector<float> values_of(const ExitTrace& trace, const PolicySpec& policy) {
  Replayer replayer(trace);
  const Departures departures = replayer.run(policy);
  std::vector<float> values;
  for (size_t row = 0; row < trace.rows; ++row) values.push_back(replayer.answer(departures, row)[0]);
  return values;
}

PolicyScore score_of(const ExitTrace& report, const PolicySpec& policy) {
  PolicyScore score = Scorer(report).score(policy);
  const ExitTrace labelled = labelled_part(report);
  if (labelled.rows > 0) score.metrics = Scorer(labelled).score(policy).metrics;
  return score;
}

class AttachFlow {
 public:
  AttachFlow(const AttachJob& job, const Observer& observer)
      : job_(job),
        observer_(observer),
        source_(with_thresholds(Checkpoint::open(job.model), job.thresholds)),
        finished_(finished_model(source_)) {}

  Attached run() {
    const auto start = std::chrono::steady_clock::now();
    require_attachable(source_, job_);
    observer_.notices(source_.notices());
    draw();
    learn();
    certify();
    report();
    write();
    result_.seconds = Seconds(std::chrono::steady_clock::now() - start).count();
    return std::move(result_);
  }

 private:
  [[nodiscard]] std::span<const Encoding> learned() const {
    return std::span(drawn_.tokens).first(result_.parts.learn);
  }
  [[nodiscard]] std::span<const Encoding> held_out() const {
    return std::span(drawn_.tokens).subspan(result_.parts.learn);
  }

  void draw() {
    tokenizer_ = load_tokenizer(source_.folder());
    const std::optional<Dataset> labelled = labelled_rows(job_, source_, observer_);
    finished_ = finished_model(source_);
    const Resolved run =
        resolve(source_, {.policy = "full", .precision = precision(), .max_length = job_.texts.max_length});
    exceptions_ = run.exceptions;
    DrawOptions options = job_.texts;
    options.max_length = run.max_length;
    drawn_ = draw_texts(options, labelled ? &*labelled : nullptr, *tokenizer_, observer_);
    result_.rows = drawn_.rows;
    result_.blank = drawn_.blank;
    result_.truncated = drawn_.truncated;
    result_.distinct = drawn_.distinct;
    result_.max_length = options.max_length;
    learned_ = learned_in(source_.folder());
    add_training_texts(options);
    for (Example& text : drawn_.texts)
      if (job_.plan.cluster_by == kNoCluster) text.cluster = "";
    const size_t known = learned_ ? put_known_first(*learned_, *tokenizer_, options.max_length, drawn_) : 0;
    choose_parts(known);
    if (known > 0) observer_.notice(fmt::format("{} texts were seen in training; excluded from certification", known));
    if (drawn_.truncated > 0) {
      observer_.notice(fmt::format(
          "{} of {} texts ({:.1f} %) were truncated to {} tokens, {}", drawn_.truncated, drawn_.rows,
          100 * static_cast<double>(drawn_.truncated) / static_cast<double>(drawn_.rows), result_.max_length,
          result_.max_length < source_.spec().max_tokens()
              ? fmt::format("and so are answers; the model can read {}: --max-length {}", source_.spec().max_tokens(),
                            source_.spec().max_tokens())
              : "the most that the model can read"));
    }
    if (drawn_.crowded) {
      observer_.notice(fmt::format("{} texts were drawn instead of {}: together they take {} MiB", drawn_.texts.size(),
                                   options.limit, drawn_.bytes >> 20));
    }
    if (drawn_.blank > 0) observer_.notice(fmt::format("{} rows without a text were left out", drawn_.blank));
  }

  // They are learned from where there is room, and never certify.
  void add_training_texts(DrawOptions options) {
    if (!learned_ && job_.learned.empty())
      observer_.notice("training texts unknown: a certificate on them is too good; name them with --learned FILE");
    if (job_.learned.empty()) return;
    options.files = job_.learned;
    options.limit = INT64_MAX;
    DrawnTexts training = draw_texts(options, nullptr, *tokenizer_, observer_);
    if (training.crowded)
      throw Error(Code::resources, fmt::format("--learned: the texts do not fit into {} MiB", options.memory >> 20));
    learn_rows(training.tokens);
    add_texts(drawn_, std::move(training), job_.texts.limit);
  }

  // The split, with as many texts to certify as this try on them takes, which is known before anything is learned.
  void choose_parts(size_t known) {
    family_ = path_exists(source_.folder() / "recipe.json") || path_exists(source_.folder() / kAttachFile)
                  ? model_family(source_)
                  : weights_sha256(finished_);
    test_ = sha256_hex(fmt::format("attach {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", weights_sha256(finished_),
                                   drawn_.sha256, job_.texts.seed, job_.texts.limit, result_.max_length, version(),
                                   engine_traits(Device{}).name, kNumerics, job_.thresholds, job_.labelled.path,
                                   job_.precision ? name_of(*job_.precision) : "", fields_json(heads()).dump(),
                                   job_.exit_0_bytes, job_.plan.cluster_by,
                                   fmt::format("{} {}", fmt::join(job_.plan.max_drops, ","), job_.plan.delta)));
    const TriedIn in{.family = family_, .elsewhere = job_.plan.tries_elsewhere};
    const double max_drop = job_.plan.max_drops.front();
    const RiskLoss loss = default_loss(finished_.exits().problem);
    std::vector<size_t> order(known);
    std::iota(order.begin(), order.end(), size_t{0});
    std::vector<size_t> ends{known};  // of the known texts, then of each cluster
    Weights weights;
    for (const std::vector<size_t>& cluster : random_clusters(drawn_.texts, known, job_.texts.seed)) {
      order.insert(order.end(), cluster.begin(), cluster.end());
      ends.push_back(order.size());
      weights.of.push_back(static_cast<double>(cluster.size()));
      weights.most = std::max(weights.most, weights.of.back());
    }
    reorder(drawn_, order);
    const RiskMethod method = info_of(loss).counts && weights.most == 1 ? RiskMethod::ltt_binomial : RiskMethod::wsr;
    for (int tries = 0, next = 1; next > tries;) {
      tries = next;
      const auto delta_for = [&](double drop) {
        return job_.plan.delta * budget_share(job_.plan, drop) * share_of_try(tries);
      };
      size_t needed = 0;
      for (const double drop : job_.plan.max_drops)
        needed =
            std::max(needed, static_cast<size_t>(rows_without_loss({loss, method, drop, delta_for(drop)}, weights)));
      AttachParts parts = split_texts(known + weights.of.size(), known, needed, max_drop, 1 - job_.plan.delta, tries,
                                      weights.most > 1 ? unit_of(job_.plan.cluster_by) : "texts");
      if (method == RiskMethod::ltt_binomial) {  // no row in vain, as in split_for_calibration()
        const auto rows = static_cast<int64_t>(parts.certify), more = static_cast<int64_t>(parts.report) / 2;
        const auto used = static_cast<size_t>(critical_rows(rows, rows + more, max_drop, delta_for(max_drop)));
        parts.report = parts.certify + parts.report - used;
        parts.certify = used;
      }
      const size_t learn = parts.learn - known, fit = learn + parts.fit, certify = fit + parts.certify;
      result_.parts = {.learn = ends[learn],
                       .fit = ends[fit] - ends[learn],
                       .certify = ends[certify] - ends[fit],
                       .report = ends.back() - ends[certify]};
      std::vector<uint64_t> hashes;
      for (size_t row = ends[fit]; row < ends[certify]; ++row) {
        hashes.push_back(row_hash_of(drawn_.tokens[row].ids));
        hashes.push_back(text_hash_of(drawn_.texts[row].text, drawn_.texts[row].pair.value_or("")));
      }
      next = next_try(test_, hashes, in);
    }
  }

  [[nodiscard]] HeadSettings heads() const {
    HeadSettings settings = job_.heads;
    settings.seed = job_.texts.seed;
    const ExitLayout& exits = finished_.exits();
    const bool high = exits.problem == Problem::regression || exits.labels.size() >= kManyLabels;
    if (settings.rate == 0) settings.rate = high ? kHighRate : kRate;
    return settings;
  }

  // In which the frozen model runs.
  [[nodiscard]] Precision precision() const { return job_.precision.value_or(Precision::fp32); }

  // What the texts take is not there for rows.
  [[nodiscard]] size_t memory_for_rows() const { return job_.memory - std::min(job_.memory / 2, drawn_.bytes); }

  void learn() {
    std::optional<TokenPieces> pieces;
    if (job_.exit_0_bytes > 0) pieces = token_pieces(*tokenizer_, finished_.spec().vocab);
    Engine engine(finished_, {.precision = precision(), .exceptions = exceptions_, .threads = job_.texts.threads});
    result_.engine = engine.name();
    result_.threads = engine.threads();
    result_.problem = finished_.exits().problem;
    exits_ = train_exits(engine, learned(), held_out().first(result_.parts.fit),
                         {.heads = heads(),
                          .threads = job_.texts.threads,
                          .memory = memory_for_rows(),
                          .pieces = std::move(pieces),
                          .ngram_bytes = job_.exit_0_bytes,
                          .progress = observer_.progress,
                          .on_teacher_logits = [&](std::span<const float> logits) {
                            require_different_answers(logits, finished_.exits());
                          }});
    model_ = std::make_unique<const Checkpoint>(with_exits(finished_, exits_));
  }

  // The texts that were not learned, in the order of their parts.
  [[nodiscard]] Dataset held_out_rows() const {
    Dataset data;
    data.sha256 = drawn_.sha256;
    data.problem = result_.problem;
    data.labels = finished_.exits().labels;
    data.examples.assign(drawn_.texts.begin() + static_cast<ptrdiff_t>(result_.parts.learn), drawn_.texts.end());
    for (size_t row = 0; row < data.examples.size(); ++row) data.examples[row].index = static_cast<int64_t>(row);
    return data;
  }

  void certify() {
    const MeasureOptions run{
        .max_length = result_.max_length, .threads = job_.texts.threads, .tokenizer = source_.folder().string()};
    std::optional<TracedTexts> texts(std::in_place, *model_, run, std::vector{held_out_rows()});
    const std::vector<size_t> all = texts->all();
    const ExitTrace trace =
        texts->trace({}, all, observer_.progress);  // once in fp32, for every part and every precision
    const auto part = [&](size_t first, size_t count) {
      const std::span<const size_t> own = std::span<const size_t>(all).subspan(first, count);
      return std::pair{select_rows(trace, own), PartRows{{own.begin(), own.end()}}};
    };
    const AttachParts& parts = result_.parts;
    std::tie(fp32_.fit, fp32_.fit_rows) = part(0, parts.fit);
    std::tie(fp32_.certify, fp32_.certify_rows) = part(parts.fit, parts.certify);
    std::tie(fp32_.report, fp32_.report_rows) = part(parts.fit + parts.certify, parts.report);
    fp32_.seed = job_.texts.seed;
    CalibrationPlan plan = job_.plan;
    plan.unit = CertifiedUnit::texts;  // as they were drawn
    plan.family = family_;
    plan.test = test_;
    if (result_.problem == Problem::regression) choose_range(plan);
    if (exits_.ngrams && !exit_0_pays(fp32_, static_cast<int64_t>(parts.certify), plan)) {
      observer_.notice("the exit before the first layer is left out: it saves nothing on the validation texts");
      exits_.ngrams.reset();
      model_ = std::make_unique<const Checkpoint>(with_exits(finished_, exits_));
      for (ExitTrace* rows : {&fp32_.fit, &fp32_.certify, &fp32_.report})
        *rows = without_first_exit(*rows, weights_sha256(*model_));
      texts.emplace(*model_, run, std::vector{held_out_rows()});
    }
    const ModelCertifier certifier(*model_, *texts, fp32_, all, {.named = job_.precision, .search_texts = kSearch},
                                   observer_);
    static_cast<CertifiedChoice&>(result_) = certifier.run(plan);
    const DropOutcome& first = result_.calibration.outcomes.front();
    if (first.policy.rule == PolicySpec{}.rule) {
      observer_.notice(fmt::format(
          "no exit saves time within {:g} %: every text runs all layers; more texts make better exits, and a larger "
          "--max-drop allows more",
          100 * first.max_drop));
    }
    report_majority(fp32_.report, observer_);
    report_rare_answers(result_.calibration.entry, finished_.exits().labels, observer_);
    result_.exits = exit_reports(fp32_.report);
    result_.full = score_of(fp32_.report, PolicySpec{});
    learn_rows(learned());
    report_overlap(*learned_, held_out().subspan(parts.fit, parts.certify), observer_);
  }

  // Beside what the model had learned before.
  void learn_rows(std::span<const Encoding> texts) {
    std::vector<LearnedRows::Row> rows;
    for (const Encoding& text : texts) rows.emplace_back(text.ids);
    if (learned_) {
      learned_->add(rows, result_.max_length);
    } else {
      learned_.emplace(rows, result_.max_length);
    }
  }

  void choose_range(CalibrationPlan& plan) {
    if (finished_.exits().range) {
      plan.range = finished_.exits().range;
      result_.range_from = "the model's";
    } else if (plan.range) {
      result_.range_from = "--range";
    } else {
      const std::vector<float> values = values_of(fp32_.fit, PolicySpec{});
      const auto [low, high] = std::minmax_element(values.begin(), values.end());
      plan.range = {*low, *high};
      result_.range_from = fmt::format("full-depth values of {} texts", fp32_.fit.rows);
    }
    result_.range = *plan.range;
  }

  void report() {
    const std::span<const Example> examples =
        std::span(drawn_.texts).subspan(result_.parts.learn + result_.parts.fit + result_.parts.certify);
    for (const DropOutcome& outcome : result_.calibration.outcomes) {
      BudgetReport report_line{.outcome = outcome, .score = score_of(result_.data.report, outcome.policy)};
      if (result_.problem == Problem::regression) {
        const OrderKept kept =
            order_kept(examples, values_of(fp32_.report, PolicySpec{}), values_of(result_.data.report, outcome.policy));
        if (kept.questions > 0) report_line.order = kept;
      }
      result_.budgets.push_back(std::move(report_line));
    }
  }

  [[nodiscard]] AttachRecord record() const {
    AttachRecord record{.weights = weights_sha256(finished_), .texts = drawn_.sha256, .rows = drawn_.rows};
    record.family = family_;
    record.learned = static_cast<int64_t>(result_.parts.learn);
    record.chosen = static_cast<int64_t>(result_.parts.fit);
    record.certified = static_cast<int64_t>(result_.parts.certify);
    record.reported = static_cast<int64_t>(result_.parts.report);
    record.max_length = result_.max_length;
    const bool pairs = std::any_of(drawn_.texts.begin(), drawn_.texts.end(), [](const Example& e) { return e.pair; });
    record.texts_per_row = pairs ? 2 : 1;
    record.engine = result_.engine;
    record.precision = name_of(precision());
    record.heads = heads();
    record.exit_0_bytes = static_cast<int64_t>(job_.exit_0_bytes);
    record.tool = version();
    record.created = now_rfc3339();
    return record;
  }

  void write() {
    const std::string record = json_text(fields_json(this->record()));
    const auto beside = [&](const fs::path& folder) -> std::vector<std::string> {
      learned_->write(folder / kLearnedFile);
      write_atomically(folder / kAttachFile, record);
      PrecisionMap map = find_precision_map(source_.folder(), source_.spec());  // of the same matrices
      if (!result_.setting.exceptions.empty()) {  // the certificate holds with these alone
        map.by_precision[result_.setting.precision] = result_.setting.exceptions;
      }
      if (map != PrecisionMap{}) write_atomically(folder / kPrecisionFile, precision_map_text(map));
      Measured measured;
      measured.trace = result_.data.certify;
      measured.model = *model_;
      const fs::path policy = folder / "policy.json";
      const PolicyLock lock(policy);
      keep_policy(lock, policy, measured, result_.calibration.entry);
      CardFacts facts = facts_of_folder(folder, *model_, source_.folder());
      facts.name = job_.out.filename().string();
      write_card(folder, *model_, facts);
      return {kLearnedFile, kAttachFile};
    };
    job_.writing(true);
    (void)write_exeunt_folder(*model_, job_.out, {.replace = job_.force, .beside = beside});
    job_.writing(false);
    result_.out = job_.out;
  }

  const AttachJob& job_;
  const Observer& observer_;
  Checkpoint source_, finished_;
  std::unique_ptr<const Tokenizer> tokenizer_ = {};
  Exceptions exceptions_ = {};
  std::string family_ = {}, test_ = {};  // as CalibrationPlan has them
  DrawnTexts drawn_ = {};
  AttachedExits exits_ = {};
  std::unique_ptr<const Checkpoint> model_ = {};
  CalibrationData fp32_ = {};                // the parts
  std::optional<LearnedRows> learned_ = {};  // by the model; in the end, by its exits, too
  Attached result_;
};

}  // namespace

AttachParts split_texts(size_t texts, size_t known, size_t needed, double max_drop, double confidence, int tries,
                        std::string_view unit) {
  const auto all = static_cast<double>(texts);
  const double wanted = kRoom * static_cast<double>(needed) / kHeldOutShares.certify;
  const double least_share = std::min(kHeldOut * all, kEnough);
  const size_t held_out =
      std::min(static_cast<size_t>(std::clamp(wanted, least_share, kMostHeldOut * all)), texts - known);
  const auto share = [&](double part) { return static_cast<size_t>(part * static_cast<double>(held_out)); };
  AttachParts parts{
      .learn = texts - held_out, .fit = share(kHeldOutShares.fit), .certify = share(kHeldOutShares.certify)};
  parts.report = held_out - parts.fit - parts.certify;
  if (parts.certify >= needed && parts.learn >= kFewest && parts.fit > 0) return parts;
  const auto least_held_out = static_cast<size_t>(std::ceil(static_cast<double>(needed + 1) / kHeldOutShares.certify));
  if (known > 0 && texts - known < least_held_out) {
    throw Error(Code::failure,
                fmt::format("the model was trained on {} of the {} {}; certification needs {} others", known, texts,
                            unit, least_held_out),
                "bring texts that it was not trained on");
  }
  const double least = std::max(static_cast<double>(needed + 1) / kHeldOutShares.certify / kMostHeldOut,
                                static_cast<double>(kFewest) / (1 - kMostHeldOut));
  throw Error(
      Code::failure,
      fmt::format("too few {}: got {} distinct ones; to promise {:g} % with confidence {:g} % takes {} at least{}",
                  unit, texts, 100 * max_drop, 100 * confidence, static_cast<size_t>(std::ceil(least)),
                  tries > 1 ? fmt::format(", as try {} on some of them", tries) : ""),
      "bring more texts (--texts takes several files), or allow more with --max-drop");
}

Attached attach_model(const AttachJob& job, const Observer& observer) {
  return AttachFlow(job, observer).run();
}

}  // namespace exeunt
