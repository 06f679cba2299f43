#include "osprey/kernels/optimizer_update.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "kernels/cpu/loops/update_rows.h"
#include "osprey/kernels/parallel.h"

namespace osprey::kernels {
namespace {

constexpr int64_t kBlock = 32768;  // numbers that one thread works on at a time

/// Numbers of one parameter: where they lie in it and in its companions.
struct Part {
  float* values;
  const float* gradients;
  float* slots[2];
  int64_t count;
};

/// Whether the numbers of two tensors of one shape lie in the same order; the strides of sides of one do not matter.
bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  for (int64_t d = 0; d < a.dim(); ++d)
    if (a.size(d) > 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

/// Calls `work(part)` for blocks of all parameters, by all threads.
template <class Work>
void for_each_part(const ParameterLists& lists, size_t num_slots, Work work) {
  at::NoGradGuard no_grad;
  TORCH_CHECK(lists.gradients.size() == lists.values.size() && lists.slots.size() == num_slots, "expected ", num_slots,
              " slots and a gradient per parameter");
  for (const std::vector<at::Tensor>& slot : lists.slots)
    TORCH_CHECK(slot.size() == lists.values.size(), "expected a slot per parameter, ", lists.values.size(), ", got ",
                slot.size());
  std::vector<at::Tensor> laid_out;  // gradients in the layout of their parameters
  std::vector<Part> parts;
  const auto check = [](const at::Tensor& value, const at::Tensor& other, const char* what) {
    TORCH_CHECK(other.scalar_type() == at::kFloat && other.is_cpu() && other.sizes() == value.sizes(), what,
                " must be like the parameter, ", value.sizes(), ", got ", other.toString(), " ", other.sizes());
  };
  for (size_t i = 0; i < lists.values.size(); ++i) {
    const at::Tensor& value = lists.values[i];
    at::Tensor gradient = lists.gradients[i];
    check(value, gradient, "gradients");
    if (!same_layout(gradient, value)) gradient = at::empty_like(value).copy_(gradient);
    laid_out.push_back(gradient);
    Part whole{value.data_ptr<float>(), gradient.const_data_ptr<float>(), {}, value.numel()};
    for (size_t s = 0; s < num_slots; ++s) {
      const at::Tensor& slot = lists.slots[s][i];
      check(value, slot, "slots");
      TORCH_CHECK(same_layout(slot, value), "slots must be laid out like the parameter");
      whole.slots[s] = slot.data_ptr<float>();
    }
    for (int64_t first = 0; first < whole.count; first += kBlock) {
      Part part{whole.values + first, whole.gradients + first, {}, std::min(kBlock, whole.count - first)};
      for (size_t s = 0; s < num_slots; ++s) part.slots[s] = whole.slots[s] + first;
      parts.push_back(part);
    }
  }
  parallel_for(static_cast<int64_t>(parts.size()), [&](int64_t i) { work(parts[static_cast<size_t>(i)]); });
}

float narrow(double value) { return static_cast<float>(value); }

}  // namespace

bool fuses_update(const std::vector<at::Tensor>& values) {
  return std::all_of(values.begin(), values.end(), [](const at::Tensor& value) {
    return value.is_cpu() && value.scalar_type() == at::kFloat && value.is_non_overlapping_and_dense();
  });
}

void momentum_update(const ParameterLists& lists, double momentum, double gradient_factor, double value_factor) {
  for_each_part(lists, 1, [&](const Part& p) {
    cpu::momentum_rows(p.values, p.gradients, p.slots[0], p.count, narrow(momentum), narrow(gradient_factor),
                       narrow(value_factor));
  });
}

void rms_prop_update(const ParameterLists& lists, const RmsPropUpdate& u) {
  for_each_part(lists, 2, [&](const Part& p) {
    cpu::rms_prop_rows(p.values, p.gradients, p.slots[0], p.slots[1], p.count, narrow(u.rho), narrow(u.momentum),
                       narrow(u.rate), narrow(u.epsilon), u.epsilon_outside);
  });
}

void adam_update(const ParameterLists& lists, const AdamUpdate& u) {
  for_each_part(lists, 2, [&](const Part& p) {
    cpu::adam_rows(p.values, p.gradients, p.slots[0], p.slots[1], p.count, narrow(u.beta1), narrow(u.beta2),
                   narrow(u.rate), narrow(u.epsilon));
  });
}

}  // namespace osprey::kernels
