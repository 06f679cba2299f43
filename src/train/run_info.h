#pragma once
#include <filesystem>
#include <string>

#include "train/assembly.h"

namespace osprey::train {

/// The text of run_info.json: versions, machine, command line, model and data of a run.
std::string run_info(const Assembly& assembly, const JobOptions& options, const data::BatchSource& source,
                     int64_t num_steps);

/// A checksum of the names and sizes of a reader's files: tells two data sets apart without reading them.
/// name    of the reader, for errors: "train_input_reader", "eval_input_reader[0]"
/// throws  DataError where files are missing
std::string data_fingerprint(const proto::InputReader& reader, const std::string& name);

/// Adds to a file that holds what `run_info` gave how the run has ended: `stopped_early_at`, `skipped_batches`.
/// throws  DataError where it cannot be written
void note(const std::filesystem::path& file, const std::string& key, int64_t value);

/// That of the training data in a file that holds what `run_info` gave; empty where it has none.
std::string saved_fingerprint(const std::filesystem::path& file);

}  // namespace osprey::train
