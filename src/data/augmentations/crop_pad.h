#pragma once
#include <algorithm>
#include <vector>

#include "data/augmentations/crop_sampler.h"
#include "data/augmentations/pad_sampler.h"
#include "osprey/data/augmentation.h"

namespace osprey::data {

/// A crop, then a canvas whose limits are ratios (height, width) of the size before the crop.
struct CropPadOptions {
  CropOptions crop;
  std::vector<float> min_ratio{1, 1}, max_ratio{2, 2};
  std::vector<float> color;  ///< empty: the mean colour of the crop
};
void random_crop_pad(Example& example, const CropPadOptions& options, RandomDraws& draws);

/// Reads min_padded_size_ratio and max_padded_size_ratio; the defaults stay where they are empty, but a largest size
/// that is not given is no less than the least one.
template <class M>
void read_padded_ratios(const config::ConfigNode<M>& cfg, std::vector<float>& least, std::vector<float>& most) {
  if (cfg->min_padded_size_ratio_size() > 0)
    least.assign(cfg->min_padded_size_ratio().begin(), cfg->min_padded_size_ratio().end());
  if (cfg->max_padded_size_ratio_size() > 0)
    most.assign(cfg->max_padded_size_ratio().begin(), cfg->max_padded_size_ratio().end());
  if (least.size() != 2) cfg.fail("min_padded_size_ratio", "must have 2 values, height and width");
  if (most.size() != 2) cfg.fail("max_padded_size_ratio", "must have 2 values, height and width");
  for (int i = 0; i < 2; ++i) {
    if (cfg->max_padded_size_ratio_size() == 0) most[i] = std::max(most[i], least[i]);
    if (!(least[i] > 0)) cfg.fail("min_padded_size_ratio", "must be > 0");
    if (!(most[i] >= least[i])) cfg.fail("max_padded_size_ratio", "must be >= min_padded_size_ratio");
  }
}

}  // namespace osprey::data
