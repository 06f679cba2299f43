#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "osprey/config/node.h"
#include "osprey/config/registry.h"
#include "osprey/core/example.h"
#include "osprey/data/random.h"
#include "osprey/protos/preprocessor.pb.h"
#include "osprey/protos/train.pb.h"

namespace osprey::data {

/// Changes an example at random; boxes, masks and keypoints stay in step with the image.
///
/// Images are RGB in 0..255. Operations that move whole pixels (flips, crops) keep a uint8 image uint8; all others turn
/// it into float32 first, so the result is the same as if it had been float32 from the start. They write into no tensor
/// that they are given, for others may hold it, too, but put new ones in its place.
class Augmentation {
 public:
  using Registry = config::Registry<Augmentation>;
  virtual ~Augmentation() = default;
  virtual void apply(Example& example, RandomDraws& draws) const = 0;
  /// Whether pixel values may leave 0..255 or stop being levels, so that rounding them to uint8 would destroy them.
  virtual bool leaves_levels() const { return false; }
  /// Whether boxes and keypoints stop being fractions of the image, which is what batches hold.
  virtual bool leaves_fractions() const { return false; }
};

/// Gives another example of the same reader, whichever the draws say; not augmented yet.
using OtherExamples = std::function<Example(RandomDraws& draws)>;

/// The chain of a config's data_augmentation_options, in their order.
class Augmenter {
 public:
  Augmenter() = default;
  explicit Augmenter(std::vector<std::unique_ptr<Augmentation>> steps) : steps_(std::move(steps)) {}

  /// key.operation is replaced by the index of each step, so adding a step at the end leaves the draws of the others.
  /// others  for steps that make one picture of several; none: there is no example but this one
  void apply(Example& example, RandomKey key, const OtherExamples& others = nullptr) const;
  size_t size() const { return steps_.size(); }
  /// Whether batches must hold float32 images because a step normalises.
  bool leaves_levels() const;
  /// Of how many pictures an example is made at most: 1, but where steps take several.
  int64_t num_pictures() const;

 private:
  /// Applies the first `count` steps.
  void apply_first(size_t count, Example& example, RandomKey key, const OtherExamples& others) const;

  std::vector<std::unique_ptr<Augmentation>> steps_;
};

/// Builds one step.
/// throws ConfigError for values out of range, naming the field
std::unique_ptr<Augmentation> build_augmentation(const config::ConfigNode<proto::PreprocessingStep>& config);

/// Builds all data_augmentation_options of a train_config, for batches.
/// throws ConfigError as build_augmentation, for a step whose boxes no batch can hold, and for steps that make one
///        picture of more than 64
std::unique_ptr<Augmenter> build_augmenter(const config::ConfigNode<proto::TrainConfig>& config);

}  // namespace osprey::data
