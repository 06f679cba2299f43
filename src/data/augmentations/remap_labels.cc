#include <algorithm>
#include <utility>
#include <vector>

#include "osprey/data/augmentation.h"

namespace osprey::data {
namespace {
using config::ConfigNode;

// Labels in configs are ids from 1, in examples classes from 0.
class RemapLabels final : public Augmentation {
 public:
  RemapLabels(std::vector<int64_t> from, int64_t to) : from_(std::move(from)), to_(to) {}
  void apply(Example& example, RandomDraws&) const override {
    for (int64_t& label : example.classes)
      if (std::find(from_.begin(), from_.end(), label + 1) != from_.end()) label = to_ - 1;
  }

 private:
  std::vector<int64_t> from_;
  int64_t to_;
};

std::unique_ptr<Augmentation> make_remap(const ConfigNode<proto::RemapLabels>& cfg) {
  if (cfg->new_label() < 1) cfg.fail("new_label", "must be an id of the label map, from 1");
  return std::make_unique<RemapLabels>(
      std::vector<int64_t>(cfg->original_labels().begin(), cfg->original_labels().end()), cfg->new_label());
}
OSPREY_REGISTER(Augmentation, &make_remap);
}  // namespace
}  // namespace osprey::data
