// SPDX-License-Identifier: Apache-2.0
// A training method as data: which heads are where, what each stage minimises, and how gradients are combined (format
// exeunt.recipe/1). The papers are recipes like any user's. Each struct lists its fields once (exeunt/base/fields.h):
// the file format, the flags of `exeunt train` and the comparison on --resume all come from these lists.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exeunt/base/fields.h"
#include "exeunt/base/json.h"
#include "exeunt/model/spec.h"

namespace exeunt {

// How a part of the heads is shared: one per exit, one for all, one per each of `groups` runs of layers, or none.
enum class Sharing { none, own, shared, own_but_last, groups };
struct SharingSpec {
  Sharing kind = Sharing::own;
  int groups = 0;
};

enum class HeadInit { copy_pooler, normal, prototypes, keep_last };
enum class ExitPlaces { all, last, listed };
enum class GradientRule { none, equilibrium, logit_scale, project };
enum class Anchor { last, early };
enum class ObjectiveKind { last, early_sum, sum, linear, alternate, limit, learned, distill, distill_early };
enum class DistillVariant { last, chain, group, bidir, ema, berxit };
enum class Trainable { all, backbone, exits };
enum class KeepBest { none, last, mean };  // which score of an evaluation decides: the last exit's, or the mean of all
enum class ClipScope { all, trainable };
enum class KlReduction { element, batch };
enum class ExcludeLast { generic, layer11 };
enum class LearnedGradient { fresh, accumulate };
enum class AdamKind { hf, torch };
enum class Frozen { eval, train };  // how a part that does not learn runs: as when it answers, or with dropout

// The words of a recipe file, in the order of the enumerations; chosen by the type, the value does not matter.
template <size_t n>
using Words = std::array<std::string_view, n>;
// clang-format off
constexpr Words<4> names_of(HeadInit) noexcept { return {"copy_pooler", "normal", "prototypes", "keep_last"}; }
constexpr Words<4> names_of(GradientRule) noexcept { return {"none", "equilibrium", "logit_scale", "project"}; }
constexpr Words<2> names_of(Anchor) noexcept { return {"last", "early"}; }
constexpr Words<9> names_of(ObjectiveKind) noexcept {
  return {"last", "early_sum", "sum", "linear", "alternate", "limit", "learned", "distill", "distill_early"};
}
constexpr Words<6> names_of(DistillVariant) noexcept { return {"last", "chain", "group", "bidir", "ema", "berxit"}; }
constexpr Words<3> names_of(Trainable) noexcept { return {"all", "backbone", "exits"}; }
constexpr Words<3> names_of(KeepBest) noexcept { return {"none", "last", "mean"}; }
constexpr Words<2> names_of(ClipScope) noexcept { return {"all", "trainable"}; }
constexpr Words<2> names_of(KlReduction) noexcept { return {"element", "batch"}; }
constexpr Words<2> names_of(ExcludeLast) noexcept { return {"generic", "layer11"}; }
constexpr Words<2> names_of(LearnedGradient) noexcept { return {"fresh", "accumulate"}; }
constexpr Words<2> names_of(AdamKind) noexcept { return {"hf", "torch"}; }
constexpr Words<2> names_of(Frozen) noexcept { return {"eval", "train"}; }
// clang-format on
namespace recipe_words {
// Of each part of the heads, in the words of Sharing.
inline constexpr Words<4> kReaders{"none", "own", "shared", "own_but_last"};
inline constexpr Words<4> kPoolers{"own", "shared", "none", "groups:K"};
inline constexpr Words<3> kClassifiers{"own", "shared", "groups:K"};
}  // namespace recipe_words

struct HeadsSpec {
  SharingSpec reader{.kind = Sharing::none}, pooler = {}, classifier = {};
  PoolInput input = PoolInput::cls;
  std::optional<int> inner = {};
  bool lte = false;
  HeadInit init = HeadInit::copy_pooler;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "reader", .choices = recipe_words::kReaders}, self.reader);
    visit(Field{.name = "pooler", .choices = recipe_words::kPoolers}, self.pooler);
    visit(Field{.name = "classifier", .choices = recipe_words::kClassifiers}, self.classifier);
    visit(Field{.name = "pool_input"}, self.input);
    visit(Field{.name = "inner", .low = 1, .high = kMaxHidden}, self.inner);
    visit(Field{.name = "lte"}, self.lte);
    visit(Field{.name = "init"}, self.init);
  }
};

// Where the exits are: after all layers, after the last or the last K ("last:K"), or after those listed.
struct ExitsSpec {
  ExitPlaces places = ExitPlaces::all;
  int count = 1;  // of the last ones
  std::vector<int> layers = {};
};

// Which loss the projection protects, possibly another one for some tasks: {"default": "early", "MNLI": "last"}.
struct AnchorSpec {
  Anchor value = Anchor::early;
  std::map<std::string, Anchor> tasks = {};
};

struct GradientSpec {
  GradientRule rule = GradientRule::none;
  AnchorSpec anchor = {};

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "rule"}, self.rule);
    visit(Field{.name = "anchor"}, self.anchor);
  }
};

// Each kind of objective has parameters of its own.
struct ObjectiveSpec {
  ObjectiveKind kind = ObjectiveKind::sum;
  int layer = 0;
  double init = 4, lr = 0.01, floor = 0;
  double gamma = 0.9, temperature = 3, momentum = 0.9999;
  double beta = 1;
  int range = 2;
  DistillVariant variant = DistillVariant::last;

  [[nodiscard]] bool distills() const noexcept {
    return kind == ObjectiveKind::distill || kind == ObjectiveKind::distill_early;
  }

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "kind", .required = true}, self.kind);
    visit(Field{.name = "layer",
                .help = "Layer of the exit that is trained",
                .low = 1,
                .high = kMaxLayers,
                .required = true,
                .applies = self.kind == ObjectiveKind::limit},
          self.layer);
    const bool learned = self.kind == ObjectiveKind::learned, distills = self.distills();
    const auto where = [](bool applies, Field field) {
      field.applies = applies;
      return field;
    };
    visit(where(learned, {"init", "Initial value of learned loss weights", "--learned-init", -50, 50}), self.init);
    visit(where(learned, {"lr", "Learning rate of learned loss weights", "--learned-lr", 0, 10}), self.lr);
    visit(Field{.name = "floor", .low = 0, .high = 1, .applies = learned}, self.floor);
    visit(Field{.name = "gamma", .low = 0, .high = 1, .applies = distills}, self.gamma);
    visit(where(distills, {"temperature", "Distillation temperature", "--temperature", 1e-3, 1e3}), self.temperature);
    visit(Field{.name = "variant", .applies = distills}, self.variant);
    visit(Field{.name = "momentum", .low = 0, .high = 1, .applies = distills && self.variant == DistillVariant::ema},
          self.momentum);
    const bool group = distills && self.variant == DistillVariant::group;
    visit(Field{.name = "beta", .help = "Weight of the summed exits", .low = 0, .high = 1e3, .applies = group},
          self.beta);
    visit(Field{.name = "range", .help = "How many exits are summed", .low = 1, .high = kMaxLayers, .applies = group},
          self.range);
  }
};

// A stage's objective, possibly another one where fewer than kFewPairs pairs of texts are trained on:
// {"default": {"kind": "sum"}, "few_pairs": {"kind": "linear"}}.
inline constexpr int64_t kFewPairs = 5000;
struct StageObjective : ObjectiveSpec {
  std::optional<ObjectiveSpec> few_pairs = {};
};

// A number that may depend on the case, until resolve_plan() takes the case for the model and its data: {"default": 3,
// "roberta": 10, "small": 6} (a family; fewer than kSmallData training rows) or {"default": 5e-5, "regression": 2e-5}.
inline constexpr int64_t kSmallData = 10000;
struct CaseNumber {
  static constexpr std::string_view kWanted = "a number, or one per case";
  double value = 0;
  std::map<Family, double> families = {};
  std::optional<double> small = {}, regression = {};

  [[nodiscard]] bool is_plain() const noexcept { return families.empty() && !small && !regression; }
};
struct TrainingCase {
  Family family = Family::bert;
  int64_t rows = 0;
  Problem problem = Problem::classification;
};
[[nodiscard]] double number_for(const CaseNumber& number, const TrainingCase& which) noexcept;

// Types with a form of their own in the file.
void read_field(JsonObject& object, const Field& field, SharingSpec& value);
void read_field(JsonObject& object, const Field& field, ExitsSpec& value);
void read_field(JsonObject& object, const Field& field, AnchorSpec& value);
void read_field(JsonObject& object, const Field& field, StageObjective& value);
void read_field(JsonObject& object, const Field& field, CaseNumber& value);
[[nodiscard]] OrderedJson field_json(const SharingSpec& value);
[[nodiscard]] OrderedJson field_json(const ExitsSpec& value);
[[nodiscard]] OrderedJson field_json(const AnchorSpec& value);
[[nodiscard]] OrderedJson field_json(const StageObjective& value);
[[nodiscard]] OrderedJson field_json(const CaseNumber& value);

struct StageSpec {
  StageObjective objective = {};
  Trainable train = Trainable::all;
  CaseNumber lr{.value = 2e-5};
  double head_lr = 1, layer_lr = 1;
  CaseNumber epochs{.value = 3};
  int batch = 32;
  double weight_decay = 0, warmup = 0, clip = 1;
  double label_smoothing = 0;
  int eval_every = 0;
  std::optional<int> early_stop = {};
  KeepBest keep_best = KeepBest::none;
  bool flags = true;

  // A field with a flag can be changed on the command line, for all stages at once but those that `flags` excludes, and
  // the batch size even there.
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "objective", .help = "The loss; see below", .required = true}, self.objective);
    visit(Field{.name = "train", .help = "Which weights are trained"}, self.train);
    visit(Field{"lr", "Learning rate", "--lr", 0, 10}, self.lr);
    visit(Field{"head_lr", "Learning rate of the heads, as a multiple of --lr", "--head-lr", 0, 1e6}, self.head_lr);
    visit(Field{"layer_lr", "Layer-wise learning-rate decay: each layer's rate over that of the layer above",
                "--layer-lr", 0, 10},
          self.layer_lr);
    visit(Field{"epochs", "Epochs per stage", "--epochs", 0, 1e6}, self.epochs);
    visit(Field{"batch", "Batch size, in texts", "--batch", 1, 1 << 20}, self.batch);
    visit(Field{"weight_decay", "Weight decay", "--weight-decay", 0, 10}, self.weight_decay);
    visit(Field{"warmup", "Share of the steps with learning-rate warm-up, 0 to 1", "--warmup", 0, 1}, self.warmup);
    visit(Field{"clip", "Maximum gradient norm; 0 = no clipping", "--clip", 0, 1e9}, self.clip);
    visit(Field{"label_smoothing", "Label smoothing of the cross entropy, 0 to 1", "--label-smoothing", 0, 1},
          self.label_smoothing);
    visit(Field{"eval_every", "Evaluate all exits every N steps; 0 = only at the end", "--eval-every", 0, 1 << 30},
          self.eval_every);
    visit(Field{"early_stop", "Early stopping: end a stage after N evaluations without a better score", "--early-stop",
                1, 1 << 20},
          self.early_stop);
    visit(Field{"keep_best", "Keep the weights of the best evaluation, by the last exit or the mean of all",
                "--keep-best"},
          self.keep_best);
    visit(Field{.name = "flags",
                .help = "Whether flags such as `--lr` change this stage, too; `--batch` and `--set` always do"},
          self.flags);
  }
};

// Where the originals' code and their papers or ours differ.
struct CompatSpec {
  ClipScope clip_scope = ClipScope::all;
  KlReduction kd_kl_reduction = KlReduction::element;
  ExcludeLast gr_exclude_last = ExcludeLast::generic;
  LearnedGradient dyn_grad = LearnedGradient::accumulate;
  AdamKind adamw = AdamKind::hf;
  Frozen frozen = Frozen::eval;

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "clip_scope"}, self.clip_scope);
    visit(Field{.name = "kd_kl_reduction"}, self.kd_kl_reduction);
    visit(Field{.name = "gr_exclude_last"}, self.gr_exclude_last);
    visit(Field{.name = "dyn_grad"}, self.dyn_grad);
    visit(Field{.name = "adamw"}, self.adamw);
    visit(Field{.name = "frozen"}, self.frozen);
  }
};

struct Recipe {
  std::string name;
  HeadsSpec heads = {};
  ExitsSpec exits = {};
  GradientSpec gradient = {};
  std::vector<StageSpec> stages = {};
  std::string policy = "full";
  int64_t seed = 42;
  CompatSpec compat = {};

  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit(Field{.name = "name", .required = true}, self.name);
    visit(Field{.name = "heads"}, self.heads);
    visit(Field{.name = "exits"}, self.exits);
    visit(Field{.name = "gradient"}, self.gradient);
    visit(Field{.name = "stages", .required = true}, self.stages);
    visit(Field{.name = "policy"}, self.policy);
    visit(Field{"seed", "Random seed", "--seed", 0}, self.seed);
    visit(Field{.name = "compat"}, self.compat);
  }
};

// Throws Error (bad_file): an unknown field or value names the nearest known one; parts that contradict each other
// are rejected here, before any model is read. "run" and "provenance", which a trained folder's recipe.json has, are
// skipped.
[[nodiscard]] Recipe parse_recipe(const Json& value, const std::string& where);
[[nodiscard]] OrderedJson recipe_json(const Recipe& recipe);
// Parts that are valid alone and contradict each other. Throws Error (bad_file).
void check_recipe(const Recipe& recipe, const std::string& where);

// By the name of a bundled recipe, or the path of a JSON file. Throws Error: usage with the nearest name.
[[nodiscard]] Recipe find_recipe(const std::string& name_or_path);
[[nodiscard]] const std::vector<std::string>& recipe_names();  // of the folder recipes/
// The files of that folder, compiled in: the text of "exeunt.json"; empty if there is no such file.
[[nodiscard]] std::string_view shipped_recipe(std::string_view name) noexcept;
[[nodiscard]] std::span<const std::string_view> shipped_recipe_names() noexcept;

// The recipe for this task (its name in the table of tasks, or empty) and number of training pairs (0: single texts):
// the objectives and the anchor it has for them, without the other cases.
[[nodiscard]] Recipe recipe_for(Recipe recipe, const std::string& task, int64_t pairs);

// What the command line changes in a recipe.
struct RecipeChanges {
  // Fields by name: of the recipe, of every stage that takes flags, and of every objective there that has them.
  Json recipe = Json::object(), stage = Json::object(), objective = Json::object();
  std::vector<std::string> set = {};  // FIELD=VALUE, e.g. "stages.0.objective.gamma=0.5"; applied last
};

// Throws Error (usage).
[[nodiscard]] Recipe changed(Recipe recipe, const RecipeChanges& changes, const std::string& where);

// The fields that `changes` name in this recipe, as --set writes them: "seed", "stages.0.lr".
[[nodiscard]] std::vector<std::string> named_fields(const Recipe& recipe, const RecipeChanges& changes);

// --preset reference: the same settings for every recipe.
[[nodiscard]] RecipeChanges reference_preset(const std::string& task, Problem problem);

// The exits a recipe asks for on a backbone, for what is about to be trained. Throws Error (usage) where they do not
// fit: a layer the model does not have, groups that do not divide the layers.
[[nodiscard]] ExitLayout layout_of(const Recipe& recipe, const ModelSpec& spec, const OutputSpec& outcome);

// The policy a trained model runs by default: the recipe's, or for a regression under a rule that needs classes,
// patience with a tolerance of 2 % of the labels' range.
[[nodiscard]] std::string native_policy(const Recipe& recipe, const ExitLayout& layout);

}  // namespace exeunt
