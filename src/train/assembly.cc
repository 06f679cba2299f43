#include "train/assembly.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <cstdlib>
#include <thread>

#include "osprey/base/error.h"
#include "osprey/base/memory.h"
#include "osprey/config/batch_scaling.h"
#include "osprey/config/resolve.h"
#include "osprey/config/static_shapes.h"
#include "osprey/config/support.h"
#include "osprey/config/validate.h"
#include "osprey/data/fake_source.h"
#include "osprey/kernels/named_device.h"
#include "osprey/models/builder.h"
#include "osprey/nn/batch_norm.h"
#include "osprey/optim/builder.h"
#include "osprey/train/class_check.h"
#include "train/faster_precision.h"
#include "train/step_graph.h"

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
}

template <class Action>
void for_each_batch_norm(const models::DetectionModel& model, Action action) {
  for (const auto& module : model.modules(/*include_self=*/false))
    if (auto* batch_norm = dynamic_cast<nn::BatchNorm*>(module.get())) action(*batch_norm);
}

/// The faster one on this machine for the model of the run.
proto::TrainConfig::Precision tried_precision(const Assembly& assembly, Replicas* replicas) {
  const PrecisionTrial trial = try_precisions(*assembly.state.model, data::train_options(assembly.root()), replicas);
  const bool narrow = trial.bfloat16 < trial.float32;
  SPDLOG_INFO(
      "train_config.precision: AUTO is {}: a trial of forward and backward took {:.3g} s in fp32, {:.3g} s in bf16",
      narrow ? "bf16" : "fp32", trial.float32, trial.bfloat16);
  return narrow ? proto::TrainConfig::BF16 : proto::TrainConfig::FP32;
}

/// The arithmetic of a run; libtorch is told whether GPUs may shorten float32, and to look for its fastest
/// convolutions, which pays where shapes never change.
Precision precision_of(const Assembly& assembly, const at::Device& device, Replicas* replicas) {
  auto wanted = config::precision(assembly.train(), device.is_cuda());
  const bool tries = wanted == proto::TrainConfig::AUTO;
  const bool all_try = replicas == nullptr || replicas->largest(tries ? 0 : 1) == 0;  // their CPUs may differ
  if (tries) wanted = all_try ? tried_precision(assembly, replicas) : proto::TrainConfig::FP32;
  const bool shortened = wanted == proto::TrainConfig::TF32;
  if (device.is_cuda()) {
    at::globalContext().setAllowTF32CuBLAS(shortened);
    at::globalContext().setAllowTF32CuDNN(shortened);
    at::globalContext().setBenchmarkCuDNN(true);
  }
  if (wanted == proto::TrainConfig::BF16) return Precision::kBfloat16;
  if (wanted == proto::TrainConfig::FP16) return Precision::kFloat16;
  return shortened && device.is_cuda() ? Precision::kTensorFloat32 : Precision::kFloat32;
}

/// Whether the environment says, as it says to TensorFlow, that the user's own code scales losses.
bool scaled_by_user() {
  const char* const value = std::getenv("TF_ENABLE_AUTO_MIXED_PRECISION_LOSS_SCALING");
  if (value == nullptr || std::string(value) != "0") return false;
  SPDLOG_INFO("TF_ENABLE_AUTO_MIXED_PRECISION_LOSS_SCALING=0: the loss is taken as it is");
  return true;
}

/// The loss scale of a run; null where the loss is taken as it is.
std::shared_ptr<LossScale> loss_scale_of(const config::ConfigNode<proto::TrainConfig>& train, Precision precision,
                                         const at::Device& device) {
  const auto node = train.child("loss_scale", train->loss_scale());
  switch (node->mode_case()) {
    case proto::LossScale::kNone:
      if (!node->none()) node.fail("none", "false says nothing; write none: true, fixed or dynamic");
      return nullptr;
    case proto::LossScale::kFixed:
      if (!(node->fixed() > 0 && std::isfinite(node->fixed())))
        node.fail("fixed", fmt::format("must be a finite number > 0, got {}", node->fixed()));
      return std::make_shared<LossScale>(LossScaleOptions{.initial = node->fixed(), .dynamic = false}, device);
    case proto::LossScale::kDynamic:
      break;
    case proto::LossScale::MODE_NOT_SET:
      if (precision != Precision::kFloat16 || scaled_by_user()) return nullptr;
      break;
  }
  const auto dynamic = node.child("dynamic", node->dynamic());
  if (!(dynamic->initial() > 0 && std::isfinite(dynamic->initial())))
    dynamic.fail("initial", fmt::format("must be a finite number > 0, got {}", dynamic->initial()));
  if (dynamic->growth_interval() < 1) dynamic.fail("growth_interval", "must be >= 1, got 0");
  return std::make_shared<LossScale>(
      LossScaleOptions{.initial = dynamic->initial(), .growth_interval = dynamic->growth_interval()}, device);
}

/// Whether steps are recorded as a CUDA graph: with ON, or where AUTO finds nothing against it. Of several replicas
/// only with ON: a recorded sum waits for a replica that is silent as long as it takes.
StepRecording recording_of(const config::Pipeline& pipeline, const config::ConfigNode<proto::TrainConfig>& train,
                           const at::Device& device, bool several) {
  const auto accelerator = train.child("accelerator", train->accelerator());
  if (accelerator->cuda_graph() == proto::Accelerator::OFF) return StepRecording::kOff;
  const bool required = accelerator->cuda_graph() == proto::Accelerator::ON;
  if (several && !required) return StepRecording::kOff;
  std::string obstacle;
  if (!device.is_cuda() || !StepGraph::available()) obstacle = "needs a GPU, and a build with kernels for it";
  for (const auto& part : config::dynamic_parts(pipeline))
    if (part.in_step)
      obstacle = fmt::format("is not for a step with {}, which {}", part.remark.path, part.remark.message);
  if (required && !obstacle.empty()) accelerator.fail("cuda_graph", "ON " + obstacle);
  return required ? StepRecording::kRequired : obstacle.empty() ? StepRecording::kIfPossible : StepRecording::kOff;
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
    if (all || batch_norm.wants_replicas()) batch_norm.synchronize(over);
  });
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

const char* name_of(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return "fp32";
    case Precision::kTensorFloat32:
      return "tf32";
    case Precision::kBfloat16:
      return "bf16";
    case Precision::kFloat16:
      return "fp16";
  }
  return "";
}

Assembly assemble(config::Pipeline pipeline, const JobOptions& options) {
  Assembly result;
  result.pipeline = std::move(pipeline);
  std::vector<std::string> paths{"train_config.fine_tune_checkpoint"};
  if (!options.use_fake_data) paths.insert(paths.end(), {"train_input_reader", "eval_input_reader"});
  config::require_configured_paths(result.pipeline, paths);
  config::validate(result.pipeline);
  config::require_supported(result.pipeline, config::Purpose::kTrain);
  check_train_config(result.root());
  if (const std::string scaled = config::scale_to_batch(result.pipeline); !scaled.empty()) SPDLOG_INFO("{}", scaled);
  const at::Device device = device_of(options);
  if (options.replicas != nullptr) check_shares(result.pipeline, options.replicas->size());

  if (!options.use_fake_data || std::filesystem::exists(result.pipeline.message->train_input_reader().label_map_path()))
    result.label_map = label_map_of(result.pipeline.message->train_input_reader());
  if (result.label_map) {
    derive_classes(result.pipeline, *result.label_map);
    std::vector<ClassCount> places;
    if (const int64_t classes = config::num_classes(*result.pipeline.message); classes > 0)
      places.push_back({"config", classes,
                        fmt::format("num_classes of the model; --set model.ssd.num_classes={} takes the label map's",
                                    result.label_map->max_id())});
    places.push_back(
        {"label map", result.label_map->max_id(), result.pipeline.message->train_input_reader().label_map_path()});
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
  for (const auto& [name, tensor] : variables.frozen) SPDLOG_INFO("Frozen: {}", name);
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

void leave_replicas(Assembly& assembly) {
  assembly.step.replicas = nullptr;
  assembly.gradient_sum.reset();
  for_each_batch_norm(*assembly.state.model, [](nn::BatchNorm& batch_norm) { batch_norm.synchronize(nullptr); });
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

void take_share(data::SourceOptions& source, const ReplicaPlace& place) {
  source.share = place.rank;
  source.num_shares = place.size;
  if (source.num_workers == 0)
    source.num_workers = std::max<int64_t>(1, std::thread::hardware_concurrency() / place.local_size);
}

std::unique_ptr<data::BatchSource> training_source(const Assembly& assembly, const JobOptions& options) {
  data::SourceOptions source = data::train_options(assembly.root());
  source.pin_memory = assembly.state.model->parameters().front().is_cuda();
  if (options.replicas != nullptr) {
    take_share(source, options.replicas->place());
    source.batch_size /= source.num_shares;
  }
  if (options.use_fake_data) return data::make_fake_source(source);
  const auto root = assembly.root();
  return data::make_source(root.child("train_input_reader", root->train_input_reader()), source);
}

int64_t total_steps(const Assembly& assembly, int64_t num_examples) {
  const proto::TrainConfig& train = assembly.train();
  return train.has_num_epochs() ? steps_for(train.num_epochs(), num_examples, assembly.batch_size) : train.num_steps();
}

std::string plan_text(int64_t num_steps, int64_t batch_size, int64_t num_examples) {
  if (num_steps == 0) return fmt::format("no end (num_steps is 0) × batch {}, {} images", batch_size, num_examples);
  const double epochs =
      static_cast<double>(num_steps * batch_size) / static_cast<double>(std::max<int64_t>(1, num_examples));
  return fmt::format("{} steps × batch {} = {:.4g} epochs of {} images", num_steps, batch_size, epochs, num_examples);
}

}  // namespace osprey::train
