#include "train/lagging_copy.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace osprey::train {

LaggingCopy::LaggingCopy(const std::vector<at::Tensor>& scalars) {
  std::vector<at::Tensor> wide;
  wide.reserve(scalars.size());
  for (const at::Tensor& scalar : scalars) wide.push_back(scalar.detach().reshape({}).to(at::kDouble));
  const at::Tensor packed = at::stack(wide);
  if (packed.is_cpu()) {
    host_ = packed;
    return;
  }
  host_ = at::empty(packed.sizes(), packed.options().device(at::kCPU).pinned_memory(true));
  host_.copy_(packed, /*non_blocking=*/true);
  arrived_.emplace(packed.device().type());
  arrived_->record(c10::impl::VirtualGuardImpl(packed.device().type()).getStream(packed.device()));
}

bool LaggingCopy::ready() const { return !arrived_ || arrived_->query(); }

std::vector<double> LaggingCopy::values() const {
  if (arrived_) arrived_->synchronize();
  return {host_.const_data_ptr<double>(), host_.const_data_ptr<double>() + host_.numel()};
}

}  // namespace osprey::train
