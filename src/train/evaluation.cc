#include "train/evaluation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "osprey/base/clock.h"
#include "osprey/base/nearest.h"
#include "osprey/config/resolve.h"
#include "osprey/eval/checkpoint_evaluator.h"
#include "osprey/eval/evaluator.h"
#include "osprey/eval/reader_folder.h"
#include "osprey/train/log_record.h"
#include "osprey/train/signals.h"
#include "train/training_source.h"

namespace osprey::train {
namespace {

/// What one evaluation needs; kept between evaluations, so that the files are opened once.
struct Evaluation {
  std::unique_ptr<data::RecordSource> source;
  std::function<data::BatchSource&()> whole_source;  ///< with the shares of all replicas; opened where it is asked for
  std::vector<eval::Category> categories;
  eval::EvaluationOptions options;
  Replicas* replicas;                         ///< null: this process is alone
  std::unique_ptr<eval::EventWriter> events;  ///< null for those who do not write
  std::string folder;
  bool moving_averages;
};

/// The whole result; nothing where the chief of several replicas has it.
std::optional<eval::EvaluationResult> result_of(Evaluation& evaluation, models::DetectionModel& model) {
  Replicas* const replicas = evaluation.replicas;
  if (replicas == nullptr) return eval::evaluate(model, *evaluation.source, evaluation.categories, evaluation.options);
  replicas->copy_from_chief(model.buffers());
  const auto gather = [&](const std::string& own) {
    replicas->meet();  // shares take unequal time
    return replicas->gather(own);
  };
  return eval::evaluate_share(model, *evaluation.source, evaluation.categories, evaluation.options,
                              {replicas->rank(), replicas->size(), gather, evaluation.whole_source});
}

std::optional<Metrics> evaluate(Evaluation& evaluation, const TrainState& state) {
  const double started = now();
  const optim::AveragesInPlace averages(evaluation.moving_averages ? state.average.get() : nullptr);
  // What an evaluation that the run has gone back behind has left would seem to be of this one, should it be lost.
  std::error_code ignored;
  if (evaluation.events) std::filesystem::remove(eval::metrics_file(evaluation.folder, state.step), ignored);
  const std::optional<eval::EvaluationResult> found = result_of(evaluation, *state.model);
  if (!found) return Metrics{};
  const eval::EvaluationResult& result = *found;
  if (result.stopped) {
    SPDLOG_INFO("The evaluation of step {} is left unfinished because of the signal", state.step);
    return std::nullopt;
  }
  eval::write_evaluation(result, evaluation.folder, state.step, evaluation.options, evaluation.events.get());
  Metrics metrics;
  std::string line;
  for (const eval::MetricValue& metric : result.metrics) {
    metrics[metric.name] = metric.value;
    if (metrics.size() <= 3)
      line +=
          fmt::format(" {}={}", metric.name, std::isnan(metric.value) ? "n/a" : fmt::format("{:.4f}", metric.value));
  }
  SPDLOG_INFO("Evaluated step {}:{} on {} images in {}", state.step, line, result.num_images,
              duration_text(now() - started));
  for (const std::string& explanation : result.explanations) SPDLOG_INFO("  {}", explanation);
  return metrics;
}

/// The tags of what an evaluation gives, but for losses, whose terms are the model's: metrics name them without images.
std::vector<std::string> metric_names(const Evaluation& evaluation) {
  std::vector<std::string> names;
  if (evaluation.options.ignore_ground_truth) return names;
  for (const std::string& set : evaluation.options.metrics_set)
    for (const eval::MetricValue& value :
         eval::make_metrics(set, evaluation.categories, evaluation.options.metrics)->values())
      names.push_back(value.name);
  return names;
}

/// "; did you mean ...?" with a name that ends with the one given, such as that of a metric without its group.
std::string meant(const std::string& given, const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (name.ends_with("/" + given)) return fmt::format("; did you mean \"{}\"?", name);
  return did_you_mean(given, names);
}

/// Refuses a `metric` of keep_best or early_stopping that no evaluation would give.
template <class Config>
void require_metric(const config::ConfigNode<Config>& config, const Evaluation& evaluation) {
  const bool gives_losses = evaluation.options.compute_loss && !evaluation.options.ignore_ground_truth;
  if (gives_losses && config->metric().starts_with("Loss/")) return;
  std::vector<std::string> names = metric_names(evaluation);
  if (std::find(names.begin(), names.end(), config->metric()) != names.end()) return;
  if (names.empty()) config.fail("metric", "there are no metrics with eval_config.ignore_groundtruth");
  if (gives_losses) names.emplace_back("Loss/total_loss");
  constexpr size_t kShown = 20;
  const auto shown = names.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, names.size()));
  const std::string proposal = meant(config->metric(), names);
  config.fail("metric", fmt::format("the evaluation gives no metric \"{}\"{} {}{}", config->metric(),
                                    proposal.empty() ? "; known are" : proposal + " Known are",
                                    fmt::join(names.begin(), shown, ", "),
                                    names.size() > kShown ? fmt::format(" and {} more", names.size() - kShown) : ""));
}

/// Warns where a label map calls a class otherwise than that of training: what is measured would be nonsense.
void compare_names(const std::optional<config::LabelMap>& trained,
                   const config::ConfigNode<proto::InputReader>& reader) {
  const std::optional<config::LabelMap> evaluated = config::label_map_of(*reader);
  if (!trained || !evaluated) return;
  for (const config::LabelMap::Item& item : evaluated->items) {
    const config::LabelMap::Item* other = trained->find(item.id);
    if (other == nullptr || other->name == item.name) continue;
    SPDLOG_WARN("{}: class {} is called '{}', in training '{}'; is it the right label map?", reader.path(), item.id,
                item.name, other->name);
    return;
  }
}

/// All but what writes.
Evaluation make_evaluation(const Assembly& assembly, Replicas* replicas) {
  const auto root = assembly.root();
  const auto config = root.child("eval_config", root->eval_config());
  data::SourceOptions source = data::eval_options(root);
  source.pin_memory = assembly.state.model->parameters().front().is_cuda();
  const auto reader = root.child("eval_input_reader", 0, root->eval_input_reader(0));
  const auto whole = std::make_shared<std::unique_ptr<data::BatchSource>>();
  const auto whole_source = [reader, source, whole]() -> data::BatchSource& {
    if (*whole == nullptr) *whole = data::make_source(reader, source);
    return **whole;
  };
  if (replicas != nullptr) take_share(source, replicas->place());
  Evaluation evaluation{data::make_source(reader, source),
                        whole_source,
                        eval::evaluation_categories(root, 0, assembly.state.model->num_classes()),
                        eval::evaluation_options(config, config::default_metric(*root)),
                        replicas,
                        /*events=*/nullptr,
                        /*folder=*/"",
                        config->use_moving_averages()};
  compare_names(assembly.label_map, reader);
  evaluation.options.device = assembly.state.model->parameters().front().device();
  const auto train = root.child("train_config", assembly.train());
  const auto checkpoint = train.child("checkpoint", train->checkpoint());
  if (checkpoint->has_keep_best()) require_metric(checkpoint.child("keep_best", checkpoint->keep_best()), evaluation);
  if (train->has_early_stopping()) require_metric(train.child("early_stopping", train->early_stopping()), evaluation);
  return evaluation;
}

}  // namespace

std::function<std::optional<Metrics>(const TrainState&)> evaluation_of(const Assembly& assembly,
                                                                       const std::filesystem::path& model_dir,
                                                                       Replicas* replicas) {
  if (assembly.pipeline.message->eval_input_reader().empty()) return nullptr;
  const auto evaluation = std::make_shared<Evaluation>(make_evaluation(assembly, replicas));
  evaluation->folder = (model_dir / "eval").string();
  evaluation->options.should_stop = [] { return SignalGuard::received() != 0; };
  if (replicas == nullptr || replicas->is_chief()) {
    evaluation->events = std::make_unique<eval::EventWriter>(evaluation->folder);
    const proto::TrainEvalPipelineConfig& config = *assembly.pipeline.message;
    if (config.eval_input_reader_size() > 1)
      SPDLOG_INFO("the config has {} eval_input_reader; a training evaluates {}, eval_detector --eval_reader any",
                  config.eval_input_reader_size(), eval::reader_text(config, 0));
  }
  return [evaluation](const TrainState& state) { return evaluate(*evaluation, state); };
}

void check_evaluation(const Assembly& assembly) {
  if (!assembly.pipeline.message->eval_input_reader().empty()) make_evaluation(assembly, nullptr);
}

}  // namespace osprey::train
