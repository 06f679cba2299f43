#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "cli/cli.h"
#include "osprey/boxes/tiles.h"

namespace osprey::tools {

struct EvalFlags {
  cli::ConfigFlags config;
  std::string model_dir, checkpoint_dir, checkpoint, exported;
  bool several = false, watch = false, skip_bad = false;  // the first: all checkpoints from first_step to last_step
  double eval_timeout = 3600;
  int64_t first_step = 0, last_step = std::numeric_limits<int64_t>::max();
  int sample_1_of_n = 0, reader = 0;
  std::optional<uint32_t> gallery;
  boxes::TileOptions tiles;  // side_px 0: pictures are looked at as a whole
  std::string device;
  std::string ground_truth, detections, json;
  int num_threads = 0;
};

void add_flags(CLI::App& app, EvalFlags& flags);

/// What flags say together, once they are read.
/// throws ConfigError where they contradict each other
void complete_flags(const CLI::App& app, EvalFlags& flags);

}  // namespace osprey::tools
