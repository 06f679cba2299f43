#pragma once
#include <memory>

#include "osprey/config/node.h"
#include "osprey/losses/classification_loss.h"
#include "osprey/losses/hard_example_miner.h"
#include "osprey/losses/localization_loss.h"
#include "osprey/losses/random_example_sampler.h"

namespace osprey::protos {
class ClassificationLoss;
class HardExampleMiner;
class LocalizationLoss;
class Loss;
}  // namespace osprey::protos

namespace osprey::losses {

/// Everything a `loss { ... }` message asks for.
struct LossSet {
  std::unique_ptr<ClassificationLoss> classification;
  std::unique_ptr<LocalizationLoss> localization;
  std::unique_ptr<HardExampleMiner> miner;        ///< null where none is configured
  std::unique_ptr<RandomExampleSampler> sampler;  ///< likewise
  double classification_weight = 1, localization_weight = 1;
};

/// Builds the losses of a detector.
/// seed    of the run, for anchors that are sampled
/// throws  ConfigError for a missing or unknown choice, a value out of range, or an option that is not supported yet
LossSet build_losses(const config::ConfigNode<proto::Loss>& config, uint64_t seed = 0);

std::unique_ptr<ClassificationLoss> build_classification_loss(
    const config::ConfigNode<proto::ClassificationLoss>& config);
std::unique_ptr<LocalizationLoss> build_localization_loss(const config::ConfigNode<proto::LocalizationLoss>& config);

/// classification_weight, localization_weight  those of the enclosing `loss`; they matter for the ranking by both
/// losses
std::unique_ptr<HardExampleMiner> build_hard_example_miner(const config::ConfigNode<proto::HardExampleMiner>& config,
                                                           double classification_weight, double localization_weight);

}  // namespace osprey::losses
