#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "osprey/data/augmentation.h"
#include "osprey/data/example_ops.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

class SubtractChannelMean final : public Augmentation {
 public:
  explicit SubtractChannelMean(const std::vector<float>& means) : means_(at::tensor(means)) {}
  bool leaves_levels() const override { return true; }
  void apply(Example& example, RandomDraws&) const override {
    make_float(example);
    example.image = example.image - means_;
  }

 private:
  at::Tensor means_;
};

std::unique_ptr<Augmentation> make_subtract_mean(const ConfigNode<proto::SubtractChannelMean>& cfg) {
  if (cfg->means_size() != 3) cfg.fail("means", "must have 3 values, got " + std::to_string(cfg->means_size()));
  return std::make_unique<SubtractChannelMean>(std::vector<float>(cfg->means().begin(), cfg->means().end()));
}
OSPREY_REGISTER(Augmentation, &make_subtract_mean);
}  // namespace
}  // namespace osprey::data
