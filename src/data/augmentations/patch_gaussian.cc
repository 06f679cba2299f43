#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "data/augmentations/checks.h"
#include "osprey/data/augmentation.h"

namespace osprey::data {
namespace {
// A number of the normal distribution; Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958.
float normal(RandomDraws& draws) {
  const float radius = std::sqrt(-2 * std::log(1 - draws.uniform(0, 1)));
  return radius * std::cos(2 * std::numbers::pi_v<float> * draws.uniform(0, 1));
}

// Noise in a square around a random pixel, cut off at the border of the image; Lopes et al., "Improving Robustness
// Without Sacrificing Accuracy with Patch Gaussian Augmentation", 2019.
class PatchGaussian final : public Augmentation {
 public:
  struct Options {
    float random_coef;
    int64_t min_side, max_side;    // pixels
    float min_stddev, max_stddev;  // in fractions of 255
  };
  explicit PatchGaussian(const Options& options) : options_(options) {}
  void apply(Example& example, RandomDraws& draws) const override {
    if (draws.uniform(0, 1) < options_.random_coef) return;
    const int64_t side = draws.integer(options_.min_side, options_.max_side);
    const float stddev = 255 * draws.uniform(options_.min_stddev, options_.max_stddev);
    const int64_t rows = example.image.size(0), columns = example.image.size(1);
    const int64_t y = draws.integer(0, rows), x = draws.integer(0, columns);
    const int64_t top = std::max<int64_t>(y - side / 2, 0), left = std::max<int64_t>(x - side / 2, 0);
    // One pixel less below and right of the centre where the side is even.
    const int64_t bottom = std::min(y + (side + 1) / 2, rows), right = std::min(x + (side + 1) / 2, columns);

    at::Tensor image = example.image.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true).contiguous();
    const int64_t channels = image.size(2);
    for (int64_t row = top; row < bottom; ++row) {
      float* values = image.data_ptr<float>() + (row * columns + left) * channels;
      for (int64_t i = 0; i < (right - left) * channels; ++i)
        values[i] = std::clamp(values[i] + stddev * normal(draws), 0.0f, 255.0f);
    }
    example.image = image;
  }

 private:
  Options options_;
};

std::unique_ptr<Augmentation> make_patch_gaussian(const config::ConfigNode<proto::RandomPatchGaussian>& cfg) {
  check_probability(cfg, "random_coef", cfg->random_coef());
  check_at_least(cfg, "min_patch_size", cfg->min_patch_size(), 1);
  if (cfg->max_patch_size() < cfg->min_patch_size()) cfg.fail("max_patch_size", "must be >= min_patch_size");
  check_range(cfg, "min_gaussian_stddev", cfg->min_gaussian_stddev(), "max_gaussian_stddev", cfg->max_gaussian_stddev(),
              0);
  return std::make_unique<PatchGaussian>(PatchGaussian::Options{cfg->random_coef(), cfg->min_patch_size(),
                                                                cfg->max_patch_size(), cfg->min_gaussian_stddev(),
                                                                cfg->max_gaussian_stddev()});
}
OSPREY_REGISTER(Augmentation, &make_patch_gaussian);
}  // namespace
}  // namespace osprey::data
