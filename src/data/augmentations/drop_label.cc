#include <vector>

#include "data/augmentations/checks.h"
#include "osprey/data/augmentation.h"
#include "osprey/data/example_ops.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

class DropLabel final : public Augmentation {
 public:
  DropLabel(int64_t label, float probability) : label_(label), probability_(probability) {}
  void apply(Example& example, RandomDraws& draws) const override {
    std::vector<int64_t> kept;
    for (size_t i = 0; i < example.classes.size(); ++i) {
      const bool dropped = draws.uniform(0, 1) < probability_ && example.classes[i] + 1 == label_;
      if (!dropped) kept.push_back(static_cast<int64_t>(i));
    }
    select(example, kept);
  }

 private:
  int64_t label_;
  float probability_;
};

std::unique_ptr<Augmentation> make_drop(const ConfigNode<proto::DropLabelProbabilistically>& cfg) {
  if (cfg->label() < 1) cfg.fail("label", "must be an id of the label map, from 1");
  check_probability(cfg, "drop_probability", cfg->drop_probability());
  return std::make_unique<DropLabel>(cfg->label(), cfg->drop_probability());
}
OSPREY_REGISTER(Augmentation, &make_drop);
}  // namespace
}  // namespace osprey::data
