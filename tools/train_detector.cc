// Trains a detector as its pipeline config says.
#include <ATen/Parallel.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "cli/cli.h"
#include "osprey/base/error.h"
#include "osprey/base/logging.h"
#include "osprey/config/effective.h"
#include "osprey/config/validate.h"
#include "osprey/train/rate_search.h"
#include "osprey/train/replicas.h"
#include "train_detector/config.h"
#include "train_detector/flags.h"
#include "train_detector/launch.h"

namespace {

using namespace osprey;

/// Calls `body`; where the config is at fault on every replica, the first tells it and the others are ended before they
/// do.
template <class Body>
auto after_the_chief(const std::optional<train::ReplicaPlace>& place, Body body) {
  try {
    return body();
  } catch (const ConfigError&) {
    if (place && place->local_rank > 0) std::this_thread::sleep_for(std::chrono::seconds(2));
    throw;
  }
}

int execute(tools::TrainFlags& flags) {
  if (flags.clone_on_cpu) flags.job.device = "cpu";
  if (flags.threads > 0) at::set_num_threads(static_cast<int>(flags.threads));
  const auto place = train::place_from_environment(std::getenv);
  config::Pipeline pipeline =
      tools::pipeline_of(flags, place ? place->size : flags.launch.clones * flags.launch.machines);
  config::check(pipeline);
  if (flags.print_config) {
    cli::print(config::annotated_text(pipeline));
    return static_cast<int>(ExitCode::kDone);
  }
  tools::check_launch_flags(flags, place);
  if (!place && flags.launch.clones * flags.launch.machines > 1) return tools::launch(flags, pipeline);
  std::unique_ptr<train::Replicas> replicas;
  if (place) {
    if (place->rank > 0) log_as_replica(place->rank);
    replicas = train::join_replicas(*place, flags.replica_timeout);
    flags.job.replicas = replicas.get();
  }
  tools::tell_dropped_epochs(flags);
  const bool speaks = !place || place->rank == 0;
  if (flags.dry_run) {
    const std::string report = train::dry_run(std::move(pipeline), flags.job);
    if (speaks) cli::print(report);
  } else if (flags.search_steps > 0) {
    const std::string line = train::find_learning_rate(std::move(pipeline), flags.job, flags.search_steps);
    if (speaks) cli::print(line + "\n");
  } else if (flags.benchmark_steps > 0) {
    const std::string line = train::benchmark(std::move(pipeline), flags.job, flags.benchmark_steps, flags.trace);
    if (speaks) cli::print(line + "\n");
  } else {
    const train::RunOutcome outcome =
        after_the_chief(place, [&] { return train::train(std::move(pipeline), flags.job); });
    if (outcome.signal != 0) return 128 + outcome.signal;
  }
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Trains a detector as its pipeline config says: saves, evaluates and logs on the way, resumes what it finds."};
  tools::TrainFlags flags;
  tools::add_flags(app, flags);
  flags.launch.arguments.assign(argv, argv + argc);
  for (int i = 0; i < argc; ++i) flags.job.command_line += (i == 0 ? "" : " ") + std::string(argv[i]);
  return cli::run_with_code(app,
                            "train_detector --pipeline_config pipeline.config --model_dir run1 --num_train_steps 20000",
                            argc, argv, [&] { return execute(flags); });
}
