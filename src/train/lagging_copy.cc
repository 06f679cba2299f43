#include "train/lagging_copy.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace osprey::train {

LaggingCopy::LaggingCopy(const std::vector<at::Tensor>& tensors) {
  for (const at::Tensor& tensor : tensors) {
    if (tensor.is_cpu()) {
      host_.push_back(tensor.detach().clone());
      continue;
    }
    host_.push_back(at::empty_like(tensor, tensor.options().device(at::kCPU).pinned_memory(true)));
    host_.back().copy_(tensor.detach(), /*non_blocking=*/true);
  }
  const at::Device device = tensors.front().device();
  if (device.is_cpu()) return;
  arrived_.emplace(device.type());
  arrived_->record(c10::impl::VirtualGuardImpl(device.type()).getStream(device));
}

bool LaggingCopy::ready() const { return !arrived_ || arrived_->query(); }

const std::vector<at::Tensor>& LaggingCopy::tensors() const {
  if (arrived_) arrived_->synchronize();
  return host_;
}

}  // namespace osprey::train
