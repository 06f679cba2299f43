#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "osprey/train/job.h"
#include "osprey/train/launcher.h"

namespace osprey::tools {

/// Parts of a schedule of learning rates, whatever kind it is of.
struct ScheduleFlags {
  std::optional<double> rate, warmup_rate, warmup_epochs;
  bool any() const { return rate || warmup_rate || warmup_epochs; }
};

struct TrainFlags {
  cli::ConfigFlags config;
  train::JobOptions job;
  std::string precision;
  std::optional<bool> amp, tf32;
  std::optional<int64_t> num_train_steps, batch_size, checkpoint_every_n, log_every_n, eval_every_n, resnet_depth;
  int64_t benchmark_steps = 0, search_steps = 0;
  std::string trace;
  train::LaunchOptions launch;
  std::string master, worker_job_name;
  int64_t ps_tasks = 0;
  double replica_timeout = 300;
  bool dry_run = false, print_config = false, clone_on_cpu = false;
  std::optional<int64_t> sample_1_of_n, images_per_replica;
  std::optional<double> num_epochs, checkpoint_period;
  int64_t examples_per_epoch = 0, threads = 0;
  ScheduleFlags schedule;
  std::vector<std::string> of_fields;  ///< "field=value" of flags that stand for a field
};

void add_flags(CLI::App& app, TrainFlags& flags);

}  // namespace osprey::tools
