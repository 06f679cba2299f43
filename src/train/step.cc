#include "osprey/train/step.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

namespace osprey::train {
namespace {

/// Runs what lies in its scope in reduced precision where that is asked for.
class AutocastScope {
 public:
  AutocastScope(Precision precision, at::DeviceType device)
      : device_(device), active_(precision == Precision::kBfloat16) {
    if (!active_) return;
    was_enabled_ = at::autocast::is_autocast_enabled(device_);
    former_type_ = at::autocast::get_autocast_dtype(device_);
    at::autocast::set_autocast_enabled(device_, true);
    at::autocast::set_autocast_dtype(device_, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~AutocastScope() {
    if (!active_) return;
    // The casts of the weights are kept while autocast lasts; the next step has other weights.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, was_enabled_);
    at::autocast::set_autocast_dtype(device_, former_type_);
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  at::DeviceType device_;
  bool active_, was_enabled_ = false;
  at::ScalarType former_type_ = at::kBFloat16;
};

Losses forward(models::DetectionModel& model, const Batch& batch, Precision precision) {
  Predictions predictions;
  {
    const AutocastScope autocast(precision, batch.images.device().type());
    predictions = model.predict(model.preprocess(batch));
  }
  predictions.box_encodings = predictions.box_encodings.to(at::kFloat);
  predictions.class_logits = predictions.class_logits.to(at::kFloat);
  return model.loss(predictions, batch);
}

void add(GradientSums& sums, const Losses& part) {
  for (const LossTerm& term : part.terms) {
    NamedScalar* sum = nullptr;
    for (NamedScalar& known : sums.terms)
      if (known.name == term.name) sum = &known;
    if (sum != nullptr)
      sum->value = sum->value + term.sum.detach();
    else
      sums.terms.push_back({term.name, term.sum.detach()});
  }
  if (part.normalizer.defined())
    sums.normalizer = sums.normalizer.defined() ? sums.normalizer + part.normalizer.detach() : part.normalizer.detach();
}

/// One small tensor there and back, in double: counts stay exact.
void sum_over(Replicas& replicas, GradientSums& sums) {
  const at::NoGradGuard no_gradients;
  std::vector<at::Tensor*> values;
  for (NamedScalar& term : sums.terms) values.push_back(&term.value);
  if (sums.normalizer.defined()) values.push_back(&sums.normalizer);
  std::vector<at::Tensor> parts;
  for (const at::Tensor* value : values) parts.push_back(value->to(at::kDouble).reshape({}));
  const at::Tensor all = at::stack(parts);
  replicas.sum(all);
  for (size_t i = 0; i < values.size(); ++i) *values[i] = all[static_cast<int64_t>(i)].to(values[i]->scalar_type());
}

}  // namespace

GradientSums accumulate_gradients(models::DetectionModel& model, const Batch& batch, const StepOptions& options) {
  const int64_t parts = options.micro_batches, size = batch.size();
  TORCH_CHECK(parts > 0 && size % parts == 0, "a batch of ", size, " images cannot be split into ", parts,
              " equal parts");
  for (at::Tensor& parameter : model.parameters()) parameter.mutable_grad() = at::Tensor();
  GradientSums sums;
  for (int64_t part = 0; part < parts; ++part) {
    const Losses losses = forward(
        model, parts == 1 ? batch : slice(batch, part * size / parts, (part + 1) * size / parts), options.precision);
    at::Tensor total;
    for (const LossTerm& term : losses.terms) total = total.defined() ? total + term.sum : term.sum;
    if (options.replicas != nullptr && part == parts - 1) options.replicas->begin();
    if (total.requires_grad()) total.backward();
    add(sums, losses);
  }
  if (options.replicas != nullptr) {
    sum_over(options.replicas->replicas(), sums);
    options.replicas->finish();
  }
  return sums;
}

StepResult train_step(TrainState& state, const Batch& batch, optim::GradientPipeline& gradients,
                      const StepOptions& options) {
  models::DetectionModel& model = *state.model;
  if (!model.is_training()) model.train();
  StepResult result;
  result.learning_rate = state.optimizer->learning_rate().at(state.step);

  const GradientSums sums = accumulate_gradients(model, batch, options);

  const at::NoGradGuard no_gradients;
  const optim::NamedTensors& parameters = state.optimizer->parameters();
  if (sums.normalizer.defined()) optim::divide_gradients(parameters, sums.normalizer);
  at::Tensor total = at::zeros({}, batch.images.options().dtype(at::kFloat));
  for (const NamedScalar& term : sums.terms) {
    result.losses.push_back(
        {term.name, sums.normalizer.defined() ? term.value / sums.normalizer.clamp_min(1) : term.value});
    total = total + result.losses.back().value;
  }
  if (options.add_regularization) {
    at::Tensor penalty;
    {
      const at::AutoGradMode with_gradients(true);
      penalty = model.regularization_loss();
      if (penalty.requires_grad()) penalty.backward();
    }
    result.losses.push_back({"Loss/regularization_loss", penalty.detach()});
    total = total + penalty.detach();
  }
  result.losses.push_back({"Loss/total_loss", total});

  result.finite = (optim::all_finite(parameters) & at::isfinite(total)).item<bool>();
  if (!result.finite) {
    model.discard_statistics();
    return result;
  }
  result.gradient_norm = gradients.apply();
  state.optimizer->update(state.step);
  model.commit_statistics();
  if (state.average != nullptr) state.average->update(state.step);
  ++state.step;
  ++state.data_position;
  return result;
}

void to_channels_last(models::DetectionModel& model) {
  const at::NoGradGuard no_gradients;
  for (at::Tensor& parameter : model.parameters())
    if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
}

}  // namespace osprey::train
