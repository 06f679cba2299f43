#pragma once
#include <cstdint>
#include <functional>

#include "osprey/data/augmentation.h"

namespace osprey::data {

/// A step that makes one example of several: pictures and objects of others of the same reader join it.
///
/// An Augmenter gives it others that have been through the steps before it, each with draws of its own, and applies the
/// steps after it to the result. With two such steps in a list the others of the second are made of several themselves.
class Combination : public Augmentation {
 public:
  struct Times {
    float probability = 1;   ///< 0 to 1
    int64_t num_epochs = 0;  ///< from the first, in which the step does something; 0: all
  };
  explicit Combination(const Times& times) : times_(times) {}

  /// How many others it takes at most.
  virtual int64_t num_others() const = 0;
  /// Makes the example one of it and of others. Boxes that stay in sight come in the order of their pictures, the
  /// example's own first.
  virtual void combine(Example& example, const OtherExamples& others, RandomDraws& draws) const = 0;

  /// Does so at its times.
  void apply(Example& example, uint64_t epoch, const OtherExamples& others, RandomDraws& draws) const;
  /// The same in the first epoch, of a reader that has this one example.
  void apply(Example& example, RandomDraws& draws) const final;

 private:
  Times times_;
};

}  // namespace osprey::data
