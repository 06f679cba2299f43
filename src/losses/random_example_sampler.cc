#include "osprey/losses/random_example_sampler.h"

#include <ATen/ATen.h>

namespace osprey::losses {

RandomExampleSampler::RandomExampleSampler(float positive_fraction, uint64_t seed)
    : negatives_per_positive_(static_cast<float>((1 - static_cast<double>(positive_fraction)) / positive_fraction)),
      draws_("RandomExampleSampler", seed) {}

at::Tensor RandomExampleSampler::operator()(const at::Tensor& candidates, const at::Tensor& positives,
                                            const at::Tensor& example_keys) const {
  const at::Tensor positive = positives.logical_and(candidates),
                   negative = candidates.logical_and(positives.bitwise_not());
  const at::Tensor wanted =
      positive.sum(1, /*keepdim=*/true).to(at::kFloat).mul_(negatives_per_positive_).to(at::kLong);
  // Negatives come first, in the order of their draws: the place of each in it says whether it is among those wanted.
  const at::Tensor draws = draws_(example_keys.to(candidates.device()), candidates.size(1));
  const at::Tensor order = draws.masked_fill(negative.bitwise_not(), int64_t{1} << 32).argsort(/*stable=*/true, 1);
  const at::Tensor place =
      at::empty_like(order).scatter_(1, order, at::arange(order.size(1), order.options()).expand_as(order));
  return positive.logical_or(negative.logical_and(place.lt(wanted)));
}

}  // namespace osprey::losses
