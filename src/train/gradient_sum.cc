#include "osprey/train/gradient_sum.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace osprey::train {

/// Gradients that are summed together.
struct GradientSum::Bucket {
  std::vector<size_t> parameters;
  std::vector<at::Tensor> places;  ///< of each parameter in `memory`, in its own shape and layout
  at::Tensor memory;
  size_t waiting = 0;  ///< parameters whose gradient is not there yet
  std::unique_ptr<PendingSum> sum;
};

/// Is called whenever the gradient of a parameter is there. It hangs on the parameter and not on the node that adds its
/// gradient up: a node that is kept has the stream on which it was made, and a step that is recorded on another stream
/// must not wait for that one.
struct GradientSum::Hook final : torch::autograd::PostAccumulateGradHook {
  Hook(GradientSum& sum, size_t number) : gradients(sum), parameter(number) {}
  void operator()(const torch::autograd::Variable&) override { gradients.arrived(parameter); }
  GradientSum& gradients;
  size_t parameter;
};

GradientSum::GradientSum(Replicas& replicas, std::vector<at::Tensor> parameters, const Options& options)
    : replicas_(replicas), parameters_(std::move(parameters)), bucket_of_(parameters_.size()) {
  int64_t bytes = 0;
  for (size_t i = parameters_.size(); i-- > 0;) {  // backward comes by the last layer first
    TORCH_CHECK(parameters_[i].requires_grad() && parameters_[i].is_leaf(),
                "parameters must be leaves with a gradient");
    if (buckets_.empty() || bytes >= options.bucket_bytes) {
      buckets_.emplace_back();
      bytes = 0;
    }
    bucket_of_[i] = buckets_.size() - 1;
    buckets_.back().parameters.push_back(i);
    bytes += static_cast<int64_t>(parameters_[i].nbytes());
  }
  for (Bucket& bucket : buckets_) {
    int64_t numbers = 0;
    for (const size_t i : bucket.parameters) numbers += parameters_[i].numel();
    const auto like = parameters_[bucket.parameters[0]].options();
    bucket.memory = at::zeros({numbers}, like.requires_grad(false).dtype(options.format));
    int64_t offset = 0;
    for (const size_t i : bucket.parameters) {
      const at::Tensor& parameter = parameters_[i];
      TORCH_CHECK(parameter.is_non_overlapping_and_dense(), "parameters must not have holes");
      bucket.places.push_back(bucket.memory.as_strided(parameter.sizes(), parameter.strides(), offset));
      offset += parameter.numel();
    }
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    TORCH_CHECK(torch::autograd::impl::post_acc_grad_hooks(parameters_[i]) == nullptr,
                "something else waits for the gradients of these parameters");
    torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i], std::make_unique<Hook>(*this, i));
  }
}

GradientSum::~GradientSum() {
  for (const at::Tensor& parameter : parameters_) torch::autograd::impl::post_acc_grad_hooks(parameter).reset();
}

void GradientSum::begin() {
  for (Bucket& bucket : buckets_) bucket.waiting = bucket.parameters.size();
  next_ = 0;
  running_ = true;
}

void GradientSum::arrived(size_t parameter) {
  if (!running_) return;
  --buckets_[bucket_of_[parameter]].waiting;
  send_complete();
}

/// All replicas send the same bucket next, whichever is complete first.
void GradientSum::send_complete() {
  while (next_ < buckets_.size() && buckets_[next_].waiting == 0) send(buckets_[next_++]);
}

void GradientSum::send(Bucket& bucket) {
  const at::NoGradGuard no_grad;
  for (size_t k = 0; k < bucket.parameters.size(); ++k) {
    const at::Tensor& gradient = parameters_[bucket.parameters[k]].grad();
    if (gradient.defined()) {
      bucket.places[k].copy_(gradient);
    } else {
      bucket.places[k].zero_();
    }
  }
  bucket.sum = replicas_.sum_later(bucket.memory);
}

void GradientSum::finish() {
  const at::NoGradGuard no_grad;
  running_ = false;
  while (next_ < buckets_.size()) send(buckets_[next_++]);
  for (Bucket& bucket : buckets_) {
    bucket.sum->wait();
    bucket.sum.reset();
    for (size_t k = 0; k < bucket.parameters.size(); ++k) {
      at::Tensor& gradient = parameters_[bucket.parameters[k]].mutable_grad();
      if (gradient.defined()) {
        gradient.copy_(bucket.places[k]);
      } else {
        gradient = bucket.places[k].to(parameters_[bucket.parameters[k]].scalar_type(), /*non_blocking=*/false,
                                       /*copy=*/true);
      }
    }
  }
}

}  // namespace osprey::train
