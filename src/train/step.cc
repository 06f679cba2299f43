#include "osprey/train/step.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "nn/autocast.h"
#include "osprey/kernels/device.h"

namespace osprey::train {
namespace {

/// The numbers that maps consist of.
at::ScalarType map_type(Precision precision) {
  switch (precision) {
    case Precision::kBfloat16:
      return at::kBFloat16;
    case Precision::kFloat16:
      return at::kHalf;
    case Precision::kFloat32:
    case Precision::kTensorFloat32:
      break;
  }
  return at::kFloat;
}

Losses forward(models::DetectionModel& model, const Batch& batch, Precision precision) {
  Predictions predictions;
  {
    const nn::Autocast autocast(batch.images.device().type(), map_type(precision));
    predictions = model.predict(model.preprocess(batch));
  }
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

/// What the updates of this step need from the host.
void prepare_updates(TrainState& state) {
  state.optimizer->prepare(state.step);
  if (state.average != nullptr) state.average->prepare(state.step);
}

}  // namespace

bool StepResult::ok() const { return healthy.item<bool>(); }

GradientSums accumulate_gradients(models::DetectionModel& model, const Batch& batch, const StepOptions& options,
                                  const at::Tensor& loss_scale) {
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
    if (loss_scale.defined()) total = total * loss_scale;
    if (total.requires_grad()) total.backward();
    add(sums, losses);
  }
  if (options.replicas != nullptr) {
    sum_over(options.replicas->replicas(), sums);
    options.replicas->finish();
  }
  return sums;
}

void prepare_step(TrainState& state) {
  if (!state.model->is_training()) state.model->train();
  if (!state.healthy.defined()) {
    const auto options = state.model->parameters().front().options().requires_grad(false);
    state.healthy = at::ones({}, options.dtype(at::kBool));
    state.healthy_steps = at::zeros({}, options.dtype(at::kLong));
  }
  if (kernels::device::reading_waits(state.healthy)) prepare_updates(state);
}

void count_step(TrainState& state) {
  ++state.step;
  ++state.data_position;
}

StepResult device_step(TrainState& state, const Batch& batch, optim::GradientPipeline& gradients,
                       const StepOptions& options) {
  models::DetectionModel& model = *state.model;
  StepResult result;
  const at::Tensor scale = state.loss_scale != nullptr ? state.loss_scale->value() : at::Tensor();
  const GradientSums sums = accumulate_gradients(model, batch, options, scale);

  const at::NoGradGuard no_gradients;
  at::Tensor total = at::zeros({}, batch.images.options().dtype(at::kFloat));
  for (const NamedScalar& term : sums.terms) {
    result.losses.push_back(
        {term.name, sums.normalizer.defined() ? term.value / sums.normalizer.clamp_min(1) : term.value});
    total = total + result.losses.back().value;
  }
  const optim::GradientNorms measured = gradients.finish(sums.normalizer, scale);
  if (gradients.adds_penalties()) {
    result.losses.push_back({"Loss/regularization_loss", measured.penalty});
    total = total + measured.penalty;
  }
  if (scale.defined()) result.losses.push_back({"loss_scale", scale.clone()});
  result.losses.push_back({"Loss/total_loss", total});

  const at::Tensor finite = measured.finite.logical_and(total.isfinite());
  state.healthy.logical_and_(state.loss_scale != nullptr ? finite.logical_or(state.loss_scale->can_shrink()) : finite);
  if (state.loss_scale != nullptr) state.loss_scale->update(finite, state.healthy);
  state.healthy_steps.add_(state.healthy);
  result.healthy = state.healthy;

  result.gradient_norm = measured.norms.norm().to(at::kFloat);
  at::Tensor proceed = finite.logical_and(state.healthy);
  if (!kernels::device::reading_waits(finite)) {
    if (!proceed.item<bool>()) {
      model.discard_statistics();
      return result;
    }
    prepare_updates(state);  // not before: a step that is not made leaves no trace
    proceed = at::Tensor();
  }
  result.gradient_norm = gradients.apply(measured);
  state.optimizer->apply(proceed);
  model.commit_statistics(proceed);
  if (state.average != nullptr) state.average->apply(proceed);
  return result;
}

StepResult train_step(TrainState& state, const Batch& batch, optim::GradientPipeline& gradients,
                      const StepOptions& options) {
  prepare_step(state);
  StepResult result = device_step(state, batch, gradients, options);
  result.learning_rate = state.optimizer->learning_rate_at(state.step);
  // On a device nobody knows yet; a step that is left out for the sake of the loss scale counts, too.
  if (kernels::device::reading_waits(result.healthy) || result.ok()) count_step(state);
  return result;
}

void to_channels_last(models::DetectionModel& model) {
  const at::NoGradGuard no_gradients;
  for (at::Tensor& parameter : model.parameters())
    if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
}

}  // namespace osprey::train
