#include "osprey/data/augmentation.h"

#include <algorithm>

namespace osprey::data {

void Augmenter::apply(Example& example, RandomKey key) const {
  for (size_t i = 0; i < steps_.size(); ++i) {
    key.operation = i;
    KeyedDraws draws(key);
    steps_[i]->apply(example, draws);
  }
}

bool Augmenter::leaves_levels() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const auto& step) { return step->leaves_levels(); });
}

std::unique_ptr<Augmentation> build_augmentation(const config::ConfigNode<proto::PreprocessingStep>& config) {
  return Augmentation::Registry::instance().build(config, "preprocessing_step");
}

std::unique_ptr<Augmenter> build_augmenter(const config::ConfigNode<proto::TrainConfig>& config) {
  std::vector<std::unique_ptr<Augmentation>> steps;
  for (int i = 0; i < config->data_augmentation_options_size(); ++i) {
    const auto node = config.child("data_augmentation_options", i, config->data_augmentation_options(i));
    steps.push_back(build_augmentation(node));
    if (steps.back()->leaves_fractions())
      config::chosen(node, "preprocessing_step")->fail("", "leaves boxes in pixels, and batches hold fractions");
  }
  return std::make_unique<Augmenter>(std::move(steps));
}

}  // namespace osprey::data
