#include "osprey/losses/builder.h"

#include <fmt/format.h>

#include <cmath>

#include "osprey/protos/losses.pb.h"

namespace osprey::losses {

std::unique_ptr<ClassificationLoss> build_classification_loss(
    const config::ConfigNode<proto::ClassificationLoss>& config) {
  return ClassificationLoss::Registry::instance().build(config, "classification_loss");
}

std::unique_ptr<LocalizationLoss> build_localization_loss(const config::ConfigNode<proto::LocalizationLoss>& config) {
  return LocalizationLoss::Registry::instance().build(config, "localization_loss");
}

std::unique_ptr<HardExampleMiner> build_hard_example_miner(const config::ConfigNode<proto::HardExampleMiner>& config,
                                                           double classification_weight, double localization_weight) {
  const auto at_least_zero = [&config](const char* field, int64_t value) {
    if (value < 0) config.fail(field, fmt::format("must be >= 0, got {}", value));
    return value;
  };
  if (!(config->iou_threshold() >= 0 && config->iou_threshold() <= 1))
    config.fail("iou_threshold", fmt::format("must be in 0..1, got {}", config->iou_threshold()));
  MinerOptions options;
  options.num_hard_examples = at_least_zero("num_hard_examples", config->num_hard_examples());
  options.iou_threshold = config->iou_threshold();
  options.max_negatives_per_positive =
      static_cast<double>(at_least_zero("max_negatives_per_positive", config->max_negatives_per_positive()));
  options.min_negatives_per_image = at_least_zero("min_negatives_per_image", config->min_negatives_per_image());
  options.classification_weight = classification_weight;
  options.localization_weight = localization_weight;
  switch (config->loss_type()) {
    case proto::HardExampleMiner::BOTH:
      options.rank = MinerOptions::Rank::kBoth;
      break;
    case proto::HardExampleMiner::CLASSIFICATION:
      options.rank = MinerOptions::Rank::kClassification;
      break;
    case proto::HardExampleMiner::LOCALIZATION:
      options.rank = MinerOptions::Rank::kLocalization;
      break;
  }
  return std::make_unique<HardExampleMiner>(options);
}

LossSet build_losses(const config::ConfigNode<proto::Loss>& config, uint64_t seed) {
  if (config->expected_loss_weights() != proto::Loss::NONE) config.unsupported("expected_loss_weights");
  const auto weight = [&config](const char* field, double value) {
    if (!(value >= 0 && std::isfinite(value)))
      config.fail(field, fmt::format("must be a finite number >= 0, got {}", value));
    return value;
  };
  if (!config->has_classification_loss()) config.fail("classification_loss", "is missing");
  if (!config->has_localization_loss()) config.fail("localization_loss", "is missing");
  LossSet set;
  set.classification_weight = weight("classification_weight", config->classification_weight());
  set.localization_weight = weight("localization_weight", config->localization_weight());
  set.classification = build_classification_loss(config.child("classification_loss", config->classification_loss()));
  set.localization = build_localization_loss(config.child("localization_loss", config->localization_loss()));
  if (config->has_hard_example_miner() && config->classification_loss().has_weighted_dice_classification_loss())
    config.fail("hard_example_miner",
                "needs the loss of each anchor; weighted_dice_classification_loss has one of all");
  if (config->has_hard_example_miner())
    set.miner = build_hard_example_miner(config.child("hard_example_miner", config->hard_example_miner()),
                                         set.classification_weight, set.localization_weight);
  if (config->has_random_example_sampler()) {
    const float fraction = config->random_example_sampler().positive_sample_fraction();
    if (!(fraction > 0 && fraction <= 1))
      config.fail("random_example_sampler.positive_sample_fraction",
                  fmt::format("must be in (0, 1], got {}", fraction));
    set.sampler = std::make_unique<RandomExampleSampler>(fraction, seed);
  }
  return set;
}

}  // namespace osprey::losses
