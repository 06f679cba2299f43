#pragma once
#include <memory>

#include "osprey/data/batch_source.h"
#include "osprey/data/source_options.h"

namespace osprey::data {

/// Batches of made-up pictures that need no files: coloured boxes of the classes on noise, drawn from (seed, example),
/// so that a model can learn them. A few examples are made once and held; batches are put together from them.
std::unique_ptr<BatchSource> make_fake_source(const SourceOptions& options, int64_t num_examples = 64);

}  // namespace osprey::data
