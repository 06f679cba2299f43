#pragma once
#include <memory>
#include <string>

#include "osprey/data/loader.h"
#include "train/assembly.h"

/// What a training reads, and how long that takes it.
namespace osprey::train {

/// The training data, or this replica's share of it; made-up pictures where the options say so.
std::unique_ptr<data::BatchSource> training_source(const Assembly& assembly, const JobOptions& options);

/// Makes the source of a whole that of a replica's share; rows per batch stay as they are.
void take_share(data::SourceOptions& source, const ReplicaPlace& place);

/// Steps of the whole run, from num_steps or num_epochs, and no more than the reader's own num_epochs has batches for;
/// 0: without end.
int64_t total_steps(const Assembly& assembly, int64_t num_examples);

/// "20,000 steps × batch 8 = 320 epochs of 500 images"
std::string plan_text(int64_t num_steps, int64_t batch_size, int64_t num_examples);

}  // namespace osprey::train
