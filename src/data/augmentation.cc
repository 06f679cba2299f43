#include "osprey/data/augmentation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "osprey/data/combination.h"

namespace osprey::data {
namespace {
constexpr int64_t kMostPictures = 64;

const Combination* combination(const Augmentation& step) { return dynamic_cast<const Combination*>(&step); }

int64_t pictures_of(const Augmentation& step) {
  const Combination* const several = combination(step);
  return several == nullptr ? 1 : 1 + several->num_others();
}
}  // namespace

void Augmenter::apply(Example& example, RandomKey key, const OtherExamples& others) const {
  apply_first(
      steps_.size(), example, key, others ? others : [alone = example](RandomDraws&) { return alone; });
}

void Augmenter::apply_first(size_t count, Example& example, RandomKey key, const OtherExamples& others) const {
  for (size_t i = 0; i < count; ++i) {
    key.operation = i;
    KeyedDraws draws(key);
    const Combination* const several = combination(*steps_[i]);
    if (several == nullptr) {
      steps_[i]->apply(example, draws);
      continue;
    }
    const auto as_far = [&](RandomDraws& of_step) {
      RandomKey own = key;  // unlike those of the example and of its own place in the epoch
      own.seed = static_cast<uint64_t>(of_step.integer(0, std::numeric_limits<int64_t>::max()));
      Example other = others(of_step);
      apply_first(i, other, own, others);
      return other;
    };
    several->apply(example, key.epoch, as_far, draws);
  }
}

int64_t Augmenter::num_pictures() const {
  int64_t pictures = 1;
  for (const auto& step : steps_) pictures *= pictures_of(*step);
  return pictures;
}

bool Augmenter::leaves_levels() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const auto& step) { return step->leaves_levels(); });
}

std::unique_ptr<Augmentation> build_augmentation(const config::ConfigNode<proto::PreprocessingStep>& config) {
  return Augmentation::Registry::instance().build(config, "preprocessing_step");
}

std::unique_ptr<Augmenter> build_augmenter(const config::ConfigNode<proto::TrainConfig>& config) {
  std::vector<std::unique_ptr<Augmentation>> steps;
  int64_t pictures = 1;
  for (int i = 0; i < config->data_augmentation_options_size(); ++i) {
    const auto node = config.child("data_augmentation_options", i, config->data_augmentation_options(i));
    steps.push_back(build_augmentation(node));
    if (steps.back()->leaves_fractions())
      config::chosen(node, "preprocessing_step")->fail("", "leaves boxes in pixels, and batches hold fractions");
    pictures *= pictures_of(*steps.back());
    if (pictures > kMostPictures)
      config::chosen(node, "preprocessing_step")
          ->fail("", fmt::format("makes one picture of {} with the steps before it, at most {} are taken", pictures,
                                 kMostPictures));
  }
  return std::make_unique<Augmenter>(std::move(steps));
}

}  // namespace osprey::data
