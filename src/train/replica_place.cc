#include <fmt/format.h>

#include <charconv>

#include "osprey/base/error.h"
#include "osprey/train/replicas.h"

namespace osprey::train {
namespace {

using Variable = std::function<const char*(const char*)>;

/// The numbers in the environment that one kind of starter sets.
class Numbers {
 public:
  Numbers(const Variable& variable, std::string starter) : variable_(variable), starter_(std::move(starter)) {}

  int64_t at(const std::string& name) const {
    const char* text = variable_(name.c_str());
    if (text == nullptr) throw ConfigError(fmt::format("{} did not set {}", starter_, name));
    return parsed(name, text);
  }
  int64_t at(const std::string& name, int64_t otherwise) const {
    const char* text = variable_(name.c_str());
    return text == nullptr ? otherwise : parsed(name, text);
  }

 private:
  static int64_t parsed(const std::string& name, const std::string& text) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < 0)
      throw ConfigError(fmt::format("{}='{}' in the environment is not a number >= 0", name, text));
    return value;
  }

  const Variable& variable_;
  std::string starter_;
};

/// Who starts replicas, and the variables in which each of them finds its place.
struct Starter {
  const char *name, *rank, *size, *local_rank, *local_size;
  bool common_names;  ///< others use the name of the rank, too: it counts only where the size is there
  bool local_is_all;  ///< where nothing is said of this machine, all replicas are on it
};
constexpr Starter kStarters[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", true, true},
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", false, false},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE", true, false},
};

std::optional<ReplicaPlace> starter_place(const Variable& variable) {
  for (const Starter& starter : kStarters) {
    if (variable(starter.rank) == nullptr || (starter.common_names && variable(starter.size) == nullptr)) continue;
    const Numbers numbers(variable, starter.name);
    ReplicaPlace place;
    place.starter = starter.name;
    place.rank = numbers.at(starter.rank);
    place.size = numbers.at(starter.size);
    place.local_rank = numbers.at(starter.local_rank, starter.local_is_all ? place.rank : 0);
    place.local_size = numbers.at(starter.local_size, starter.local_is_all ? place.size : 1);
    return place;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ReplicaPlace> place_from_environment(const Variable& variable) {
  std::optional<ReplicaPlace> place = starter_place(variable);
  if (!place || place->size == 1) return std::nullopt;
  if (place->size < 1 || place->rank >= place->size)
    throw ConfigError(fmt::format("{} says that this is replica {} of {}", place->starter, place->rank, place->size));
  if (place->local_size < 1)
    throw ConfigError(
        fmt::format("{} says that no replica is on this machine, where replica {} runs", place->starter, place->rank));
  if (const char* own = variable("OSPREY_STARTER")) place->starter = own;
  const char* agent = variable("TORCHELASTIC_USE_AGENT_STORE");
  place->meeting_point_is_there = agent != nullptr && std::string(agent) == "True";
  if (const char* attempt = variable("TORCHELASTIC_RESTART_COUNT")) place->attempt = attempt;
  const char* address = variable("MASTER_ADDR");
  if (address != nullptr) place->master_address = address;
  if (address == nullptr && place->local_size < place->size)
    throw ConfigError(
        fmt::format("{} started {} replicas, {} of them here: MASTER_ADDR has to name the machine of replica 0",
                    place->starter, place->size, place->local_size));
  place->master_port = Numbers(variable, place->starter).at("MASTER_PORT", place->master_port);
  if (place->master_port < 1 || place->master_port > 65535)
    throw ConfigError(fmt::format("MASTER_PORT={} is not a port", place->master_port));
  return place;
}

void require_same(Replicas& replicas, const std::string& what, const std::string& text) {
  const std::vector<std::string> all = replicas.texts(text);
  std::string others;
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0]) others += fmt::format("{}{}", others.empty() ? "" : ", ", rank);
  if (!others.empty()) throw ConfigError(fmt::format("replica {} has another {} than replica 0", others, what));
}

}  // namespace osprey::train
