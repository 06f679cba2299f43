#include "train/assembly.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <filesystem>

#include "osprey/base/error.h"
#include "osprey/base/memory.h"
#include "osprey/config/batch_scaling.h"
#include "osprey/config/registry.h"
#include "osprey/config/resolve.h"
#include "osprey/config/support.h"
#include "osprey/config/validate.h"
#include "osprey/data/reader_classes.h"
#include "osprey/kernels/named_device.h"
#include "osprey/models/builder.h"
#include "osprey/nn/batch_norm.h"
#include "osprey/optim/builder.h"
#include "osprey/train/class_check.h"
#include "train/run_arithmetic.h"

namespace osprey::train {
namespace {

/// The device of the options, which from here on is the present one of this thread; replicas of one machine have a GPU
/// each.
at::Device device_of(const JobOptions& options) {
  const at::Device device = kernels::named_device(options.device);
  if (!device.is_cuda() || options.replicas == nullptr) return device;
  const ReplicaPlace& place = options.replicas->place();
  if (device.has_index())
    throw ConfigError(fmt::format("--device {}: replicas choose a GPU each; say cuda", options.device));
  const auto gpus = at::detail::getCUDAHooks().deviceCount();
  if (place.local_size > gpus)
    throw ConfigError(fmt::format("--device cuda: {} replicas on this machine, but {} GPUs", place.local_size, gpus));
  return kernels::named_device(fmt::format("cuda:{}", place.local_rank));
}

void check_early_stopping(const config::ConfigNode<proto::TrainEvalPipelineConfig>& root,
                          const config::ConfigNode<proto::TrainConfig>& train) {
  const auto stopping = train.child("early_stopping", train->early_stopping());
  if (stopping->metric().empty()) stopping.fail("metric", "must name a metric");
  if (stopping->patience_evaluations() < 1) stopping.fail("patience_evaluations", "must be >= 1, got 0");
  if (!(stopping->min_delta() >= 0))
    stopping.fail("min_delta", fmt::format("must be >= 0, got {}", stopping->min_delta()));
  if (!std::isfinite(stopping->target()))
    stopping.fail("target", fmt::format("must be a number, got {}", stopping->target()));
  if (root->eval_input_reader_size() == 0)
    train.fail("early_stopping", "needs evaluations within training, but there is no eval_input_reader");
  const proto::CheckpointConfig& saved = train->checkpoint();
  if (!root->eval_config().has_eval_every_n_epochs() && root->eval_config().eval_every_n_steps() == 0 &&
      saved.every_n_steps() == 0 && saved.every_n_secs() == 0)
    train.fail("early_stopping",
               "needs evaluations before the last step; set eval_config.eval_every_n_steps, or "
               "train_config.checkpoint.every_n_steps");
}

/// What training alone asks for.
void check_train_config(const config::ConfigNode<proto::TrainEvalPipelineConfig>& root) {
  if (!root->has_train_config()) root.fail("train_config", "is missing");
  const auto train = root.child("train_config", root->train_config());
  if (train->batch_size() % train->gradient_accumulation_steps() != 0)
    train.fail("gradient_accumulation_steps", fmt::format("must divide batch_size {}, got {}", train->batch_size(),
                                                          train->gradient_accumulation_steps()));
  if (train->sync_replicas() && train->has_startup_delay_steps() && train->startup_delay_steps() != 0)
    train.fail("startup_delay_steps",
               fmt::format("must be 0 with sync_replicas, got {}", train->startup_delay_steps()));
  if (train->has_early_stopping()) check_early_stopping(root, train);
}

/// "Frozen: 87 of 120 variables: a, b, c, ..."
std::string frozen_text(const std::vector<std::string>& names, size_t all) {
  constexpr size_t kShown = 3;
  const auto shown = names.begin() + static_cast<std::ptrdiff_t>(std::min(kShown, names.size()));
  return fmt::format("Frozen: {} of {} variables: {}{}", names.size(), all, fmt::join(names.begin(), shown, ", "),
                     names.size() > kShown ? ", ... (run_info.json lists them all)" : "");
}

template <class Action>
void for_each_batch_norm(const models::DetectionModel& model, Action action) {
  for (const auto& module : model.modules(/*include_self=*/false))
    if (auto* batch_norm = dynamic_cast<nn::BatchNorm*>(module.get())) action(*batch_norm);
}

GradientSum::Options exchange_options(const config::ConfigNode<proto::TrainConfig>& train) {
  const auto exchange = train.child("gradient_exchange", train->gradient_exchange());
  const double mebibytes = exchange->bucket_mib();
  if (!(mebibytes > 0 && std::isfinite(mebibytes))) exchange.fail("bucket_mib", "must be > 0");
  return {.bucket_bytes = static_cast<int64_t>(std::ceil(mebibytes * (1 << 20))),
          .format = exchange->format() == proto::GradientExchange::BF16 ? at::kBFloat16 : at::kFloat};
}

/// Lets batch norms that want it, or all of them, use the statistics of all replicas.
void synchronize_batch_norm(models::DetectionModel& model, Replicas& replicas, bool all) {
  const auto over = std::make_shared<const kernels::ReplicaSum>(
      kernels::ReplicaSum{[&replicas](const at::Tensor& numbers) { replicas.sum(numbers); }, replicas.size()});
  for_each_batch_norm(model, [&](nn::BatchNorm& batch_norm) {
    if (!all && !batch_norm.wants_replicas()) return;
    if (model.any_input_size())
      throw ConfigError(
          "sync_batch_norm: needs an image_resizer that brings all pictures to one size: the statistics of the "
          "replicas would be of different numbers of values");
    batch_norm.synchronize(over);
  });
}

void warn_of_rounding(const proto::TrainEvalPipelineConfig& config) {
  if (!config::trains_for_8_bits(config)) return;
  const proto::Quantization& quantization = config.graph_rewriter().quantization();
  const int64_t delay = quantization.delay(), steps = config.train_config().num_steps();
  if (config.eval_config().use_moving_averages() && !quantization.weights_per_channel())
    SPDLOG_WARN(
        "eval_config.use_moving_averages: averages of weights may be far worse in 8 bits than the weights themselves, "
        "which training fits to the numbers there are, unless graph_rewriter.quantization.weights_per_channel gives "
        "them numbers of their own; see docs/models.md");
  if (steps > 0 && delay > steps)
    SPDLOG_WARN(
        "graph_rewriter.quantization.delay: {} is beyond the last step, {}: training rounds nothing, evaluations "
        "and exports do",
        delay, steps);
}

}  // namespace

void check_shares(const config::Pipeline& pipeline, int64_t replicas) {
  const auto root = pipeline.root();
  const int64_t batch = root->train_config().batch_size(), parts = root->train_config().gradient_accumulation_steps();
  const int64_t unit = replicas * std::max<int64_t>(1, parts);
  if (batch % unit == 0) return;
  const int64_t below = batch / unit * unit;
  root.child("train_config", root->train_config())
      .fail("batch_size", fmt::format("{} images cannot be shared evenly by {} replicas{}; {}{} can", batch, replicas,
                                      parts > 1 ? fmt::format(" in {} parts each", parts) : "",
                                      below > 0 ? fmt::format("{} or ", below) : "", below + unit));
}

Assembly assemble(config::Pipeline pipeline, const JobOptions& options) {
  Assembly result;
  result.pipeline = std::move(pipeline);
  std::vector<std::string> paths{"train_config.fine_tune_checkpoint"};
  if (!options.use_fake_data) paths.insert(paths.end(), {"train_input_reader", "eval_input_reader"});
  config::require_configured_paths(result.pipeline, paths);
  config::validate(result.pipeline);
  config::require_supported(result.pipeline);
  check_train_config(result.root());
  warn_of_rounding(*result.pipeline.message);
  if (const std::string scaled = config::scale_to_batch(result.pipeline); !scaled.empty()) SPDLOG_INFO("{}", scaled);
  const at::Device device = device_of(options);
  if (options.replicas != nullptr) check_shares(result.pipeline, options.replicas->size());

  config::derive_metrics(*result.pipeline.message);
  if (options.use_fake_data)
    config::derive_num_classes(*result.pipeline.message);
  else
    data::derive_classes(result.pipeline);
  const proto::InputReader& reader = result.pipeline.message->train_input_reader();
  if (!options.use_fake_data || reader.has_label_map() || std::filesystem::exists(reader.label_map_path()))
    result.label_map = config::label_map_of(reader);
  if (result.label_map) {
    std::vector<ClassCount> places;
    if (const int64_t classes = config::num_classes(*result.pipeline.message); classes > 0)
      places.push_back(
          {"config", classes,
           fmt::format("num_classes of the model; --set {}.num_classes={} takes the label map's",
                       config::chosen(result.root().child("model", result.root()->model()), "model")->path(),
                       result.label_map->max_id())});
    places.push_back({"label map", result.label_map->max_id(), place_of_classes(reader)});
    check_classes(places);
  }

  const auto root = result.root();
  result.resident_before = resident_bytes();
  models::BuildOptions build_options;
  build_options.device = device;
  result.state.model = models::build_model(root, build_options);
  to_channels_last(*result.state.model);
  result.state.model->train();
  result.names = class_names(result.label_map, result.state.model->num_classes());
  result.batch_size = root->train_config().batch_size();

  optim::NamedTensors parameters;
  for (const auto& item : result.state.model->named_parameters()) parameters.emplace_back(item.key(), item.value());
  const auto train = root.child("train_config", root->train_config());
  optim::FilteredVariables variables = optim::build_variable_filter(train, parameters);
  for (const std::string& pattern : variables.unused_patterns)
    SPDLOG_WARN("train_config: the pattern '{}' matches no variable", pattern);
  for (const auto& [name, tensor] : variables.frozen) result.frozen.push_back(name);
  if (!result.frozen.empty()) SPDLOG_INFO("{}", frozen_text(result.frozen, parameters.size()));
  const auto arithmetic = optim::arithmetic_of(root);
  const auto optimizer = train.child("optimizer", train->optimizer());
  result.state.optimizer = optim::build_optimizer(optimizer, variables.trained, arithmetic);
  result.state.average = optim::build_moving_average(optimizer, variables.trained, arithmetic);
  const auto penalties = train->add_regularization_loss() ? result.state.model->regularized_weights()
                                                          : std::vector<nn::RegularizedWeight>();
  result.gradients =
      std::make_unique<optim::GradientPipeline>(variables.trained, optim::gradient_options(train), penalties);
  if (options.replicas != nullptr) {
    result.gradient_sum =
        std::make_unique<GradientSum>(*options.replicas, optim::tensors_of(variables.trained), exchange_options(train));
    result.step.replicas = result.gradient_sum.get();
    synchronize_batch_norm(*result.state.model, *options.replicas, train->sync_batch_norm());
  }
  result.step.micro_batches = train->gradient_accumulation_steps();
  result.step.precision = precision_of(result, device, options.replicas);
  result.state.loss_scale = loss_scale_of(train, result.step.precision, device);
  result.cuda_graph = recording_of(result.pipeline, train, device, options.replicas != nullptr);
  return result;
}

AloneScope::AloneScope(Assembly& assembly, Replicas* replicas) : assembly_(assembly), replicas_(replicas) {
  assembly_.step.replicas = nullptr;
  for_each_batch_norm(*assembly_.state.model, [](nn::BatchNorm& batch_norm) { batch_norm.synchronize(nullptr); });
}

AloneScope::~AloneScope() {
  if (replicas_ == nullptr) return;
  assembly_.step.replicas = assembly_.gradient_sum.get();
  synchronize_batch_norm(*assembly_.state.model, *replicas_, assembly_.train().sync_batch_norm());
}

int64_t peak_memory(const Assembly& assembly) {
  const at::Device device = assembly.state.model->parameters().front().device();
  if (device.is_cpu()) return std::max<int64_t>(0, peak_resident_bytes() - assembly.resident_before);
  return at::getDeviceAllocator(device.type())->getDeviceStats(device.index()).reserved_bytes[0].peak;
}

int64_t state_memory(const Assembly& assembly) {
  size_t bytes = 0;
  for (const auto& [name, tensor] : snapshot(assembly.state).tensors) bytes += tensor.nbytes();
  for (const auto& [name, parameter] : assembly.state.optimizer->parameters()) bytes += parameter.nbytes();
  return static_cast<int64_t>(bytes);
}

}  // namespace osprey::train
