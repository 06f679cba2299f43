#include <ATen/ATen.h>

#include "osprey/data/augmentation.h"

namespace osprey::data {
namespace {
// Scores of every class, stored as logits, become probabilities.
class LogitsToSoftmax final : public Augmentation {
 public:
  explicit LogitsToSoftmax(float temperature) : scale_(1 / temperature) {}
  void apply(Example& example, RandomDraws&) const override {
    TORCH_CHECK(example.multiclass_scores.defined(),
                "convert_class_logits_to_softmax needs multiclass_scores, which the input reader did not load");
    example.multiclass_scores = at::softmax(example.multiclass_scores * scale_, 1);
  }

 private:
  float scale_;
};

std::unique_ptr<Augmentation> make_softmax(const config::ConfigNode<proto::ConvertClassLogitsToSoftmax>& cfg) {
  if (!(cfg->temperature() > 0)) cfg.fail("temperature", "must be > 0, got " + std::to_string(cfg->temperature()));
  return std::make_unique<LogitsToSoftmax>(cfg->temperature());
}
OSPREY_REGISTER(Augmentation, &make_softmax);
}  // namespace
}  // namespace osprey::data
