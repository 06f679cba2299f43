#pragma once
#include <string>

#include "train/assembly.h"

namespace osprey::train {

/// The text of run_info.json: versions, machine, command line, model and data of a run.
std::string run_info(const Assembly& assembly, const JobOptions& options, const data::BatchSource& source,
                     int64_t num_steps);

/// A checksum of the names and sizes of a reader's files: tells two data sets apart without reading them.
std::string data_fingerprint(const proto::InputReader& reader);

}  // namespace osprey::train
