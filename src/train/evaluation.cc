#include "train/evaluation.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cmath>

#include "osprey/base/clock.h"
#include "osprey/eval/checkpoint_evaluator.h"
#include "osprey/eval/evaluator.h"
#include "osprey/train/log_record.h"
#include "osprey/train/signals.h"
#include "train/training_source.h"

namespace osprey::train {
namespace {

/// What one evaluation needs; kept between evaluations, so that the files are opened once.
struct Evaluation {
  std::unique_ptr<data::RecordSource> source;
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
                              {replicas->rank(), replicas->size(), gather});
}

Metrics evaluate(Evaluation& evaluation, const TrainState& state) {
  const double started = now();
  const optim::AveragesInPlace averages(evaluation.moving_averages ? state.average.get() : nullptr);
  const std::optional<eval::EvaluationResult> found = result_of(evaluation, *state.model);
  if (!found) return {};
  const eval::EvaluationResult& result = *found;
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

}  // namespace

std::function<Metrics(const TrainState&)> evaluation_of(const Assembly& assembly,
                                                        const std::filesystem::path& model_dir, Replicas* replicas) {
  const auto root = assembly.root();
  if (root->eval_input_reader_size() == 0) return nullptr;
  const auto config = root.child("eval_config", root->eval_config());

  const std::string folder = (model_dir / "eval").string();
  data::SourceOptions source = data::eval_options(root);
  source.pin_memory = assembly.state.model->parameters().front().is_cuda();
  if (replicas != nullptr) take_share(source, replicas->place());
  const bool writes = replicas == nullptr || replicas->is_chief();
  auto evaluation = std::make_shared<Evaluation>(Evaluation{
      data::make_source(root.child("eval_input_reader", 0, root->eval_input_reader(0)), source),
      eval::evaluation_categories(root, 0, assembly.state.model->num_classes()), eval::evaluation_options(config),
      replicas, writes ? std::make_unique<eval::EventWriter>(folder) : nullptr, folder, config->use_moving_averages()});
  evaluation->options.device = assembly.state.model->parameters().front().device();
  return [evaluation](const TrainState& state) { return evaluate(*evaluation, state); };
}

}  // namespace osprey::train
