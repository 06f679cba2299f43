#include "train/evaluation.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cmath>

#include "osprey/base/clock.h"
#include "osprey/data/loader.h"
#include "osprey/eval/evaluator.h"
#include "osprey/train/class_check.h"
#include "osprey/train/log_record.h"
#include "osprey/train/signals.h"

namespace osprey::train {
namespace {

/// What one evaluation needs; kept between evaluations, so that the files are opened once.
struct Evaluation {
  std::unique_ptr<data::RecordSource> source;
  std::vector<eval::Category> categories;
  eval::EvaluationOptions options;
  eval::EventWriter events;
  std::string folder;
  bool moving_averages;
};

Metrics evaluate(Evaluation& evaluation, const TrainState& state) {
  const double started = now();
  evaluation.source->seek(0);
  const optim::AveragesInPlace averages(evaluation.moving_averages ? state.average.get() : nullptr);
  const eval::EvaluationResult result =
      eval::evaluate(*state.model, *evaluation.source, evaluation.categories, evaluation.options);
  eval::write_evaluation(result, evaluation.folder, state.step, evaluation.options, &evaluation.events);
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
                                                        const std::filesystem::path& model_dir) {
  const auto root = assembly.root();
  if (root->eval_input_reader_size() == 0) return nullptr;
  const auto config = root.child("eval_config", root->eval_config());
  const auto map = root->eval_input_reader(0).label_map_path().empty() ? assembly.label_map
                                                                       : label_map_of(root->eval_input_reader(0));
  std::vector<eval::Category> categories;
  const std::vector<std::string> names = class_names(map, assembly.state.model->num_classes());
  for (size_t i = 0; i < names.size(); ++i) categories.push_back({static_cast<int64_t>(i) + 1, names[i]});

  const std::string folder = (model_dir / "eval").string();
  auto evaluation = std::make_shared<Evaluation>(Evaluation{data::make_eval_source(root), categories,
                                                            eval::evaluation_options(config), eval::EventWriter(folder),
                                                            folder, config->use_moving_averages()});
  evaluation->options.device = assembly.state.model->parameters().front().device();
  return [evaluation](const TrainState& state) { return evaluate(*evaluation, state); };
}

}  // namespace osprey::train
