#include "train_detector/launch.h"

#include <fmt/format.h>

#include <charconv>

#include "osprey/base/error.h"

namespace osprey::tools {

void check_launch_flags(const TrainFlags& flags, const std::optional<train::ReplicaPlace>& place) {
  const train::LaunchOptions& launch = flags.launch;
  const bool several = launch.clones * launch.machines > 1;
  const bool others = launch.machine > 0 || launch.max_restarts > 0 || !flags.master.empty();
  if (place && place->starter != "train_detector" && (several || others))
    throw ConfigError(fmt::format(
        "{} has started this process as one of {} replicas; --num_clones, --worker_replicas, --task, --master and "
        "--max_restarts are for replicas that train_detector starts itself",
        place->starter, place->size));
  if (!place && !several && others)
    throw ConfigError("--task, --master and --max_restarts need several replicas: --num_clones or --worker_replicas");
}

int launch(TrainFlags& flags, const config::Pipeline& pipeline) {
  train::LaunchOptions& options = flags.launch;
  train::check_shares(pipeline, options.clones * options.machines);
  if (!flags.master.empty()) {
    const size_t colon = flags.master.rfind(':');
    const char* const end = flags.master.data() + flags.master.size();
    int port = 0;
    const bool is_number =
        colon != std::string::npos && std::from_chars(flags.master.data() + colon + 1, end, port).ptr == end;
    if (!is_number || port < 1 || port > 65535)
      throw ConfigError(fmt::format("--master {}: must be HOST:PORT", flags.master));
    options.master_address = flags.master.substr(0, colon);
    options.master_port = port;
  }
  return train::launch_replicas(options);
}

}  // namespace osprey::tools
