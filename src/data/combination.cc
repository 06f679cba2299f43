#include "osprey/data/combination.h"

namespace osprey::data {

void Combination::apply(Example& example, uint64_t epoch, const OtherExamples& others, RandomDraws& draws) const {
  if (times_.num_epochs > 0 && epoch >= static_cast<uint64_t>(times_.num_epochs)) return;
  if (draws.uniform(0, 1) < times_.probability) combine(example, others, draws);
}

void Combination::apply(Example& example, RandomDraws& draws) const {
  apply(
      example, 0, [alone = example](RandomDraws&) { return alone; }, draws);
}

}  // namespace osprey::data
