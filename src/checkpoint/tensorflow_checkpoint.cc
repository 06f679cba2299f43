#include "osprey/checkpoint/tensorflow_checkpoint.h"

#include <ATen/ATen.h>

#include <cstdlib>
#include <set>

#include "checkpoint/index_file.h"
#include "checkpoint/table_file.h"
#include "checkpoint/tensor_bundle.h"
#include "checkpoint/tensor_slices.h"
#include "checkpoint/tensorflow_tensor.h"

namespace osprey::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr const char* kAverage = "/ExponentialMovingAverage";
constexpr const char* kStep = "global_step";
constexpr const char* kSavedModel = "saved_model.pb";

bool is_part(const fs::path& file) {
  const std::string extension = file.extension();
  return extension == ".index" || extension == ".meta" || extension.starts_with(".data-");
}

/// Whether a tensor may be a variable of a network: scalars are counters and numbers of optimizers, but for the ends of
/// ranges that values are rounded in.
bool is_of_network(const std::string& name, const at::Tensor& tensor) {
  return tensor.dim() > 0 || name.ends_with("/min") || name.ends_with("/max");
}

/// Variables and slots of a checkpoint by names: a slot's name is its variable's, and one part more.
TensorFlowCheckpoint by_names(const std::map<std::string, at::Tensor>& tensors) {
  TensorFlowCheckpoint result;
  for (const auto& [name, tensor] : tensors) {
    const size_t slash = name.rfind('/');
    const std::string owner = slash == std::string::npos ? "" : name.substr(0, slash);
    if (name == kStep && tensor.numel() == 1)
      result.step = tensor.item<int64_t>();
    else if (name.ends_with(kAverage))
      result.averages.emplace(owner, tensor);
    else if (is_of_network(name, tensor) && tensors.count(owner) == 0)
      result.variables.emplace(name, tensor);
  }
  return result;
}

/// The same of an object-based one, whose keys are ways through the objects of a program: the graph says what each
/// variable was called.
TensorFlowCheckpoint by_objects(const fs::path& index, const TensorBundle& bundle) {
  const auto graph = message_of<records::TrackableObjectGraph>(index, "object graph", bundle.object_graph);
  std::set<int32_t> slots;
  std::map<int32_t, int32_t> averaged;  // node of an average -> node of its variable
  for (const auto& node : graph.nodes())
    for (const auto& slot : node.slot_variables()) {
      slots.insert(slot.slot_variable_node_id());
      if (slot.slot_name() == "average") averaged[slot.slot_variable_node_id()] = slot.original_variable_node_id();
    }
  const auto name_of = [&](int32_t node) {
    if (node < 0 || node >= graph.nodes_size() || graph.nodes(node).attributes().empty()) return std::string();
    return graph.nodes(node).attributes(0).full_name();
  };

  TensorFlowCheckpoint result;
  for (int32_t node = 0; node < graph.nodes_size(); ++node)
    for (const auto& variable : graph.nodes(node).attributes()) {
      const auto found = bundle.tensors.find(variable.checkpoint_key());
      if (found == bundle.tensors.end()) continue;
      const at::Tensor& tensor = found->second;
      const auto average = averaged.find(node);
      if (variable.full_name() == kStep && tensor.numel() == 1)
        result.step = tensor.item<int64_t>();
      else if (average != averaged.end())
        result.averages.emplace(name_of(average->second), tensor);
      else if (is_of_network(variable.full_name(), tensor) && slots.count(node) == 0 &&
               !result.variables.emplace(variable.full_name(), tensor).second)
        result.variables.emplace(variable.checkpoint_key(), tensor);  // two of one name: none can be told by it
    }
  return result;
}

/// The newest checkpoint of a folder: the one that its `checkpoint` file names, else the one of the highest number;
/// empty where there is none.
fs::path newest_in(const fs::path& folder) {
  const fs::path named = read_index(folder).newest;
  if (!named.empty())  // written by its whole path it may have been moved since
    for (const fs::path& prefix : {folder / named, folder / named.filename()})
      if (fs::exists(prefix.string() + ".index") || is_table(prefix)) return prefix;
  fs::path newest;
  int64_t highest = -1;
  for (const auto& item : fs::directory_iterator(folder)) {
    if (item.path().extension() != ".index") continue;
    const std::string name = item.path().stem();
    const size_t digits = name.find_last_not_of("0123456789") + 1;
    const int64_t number = digits < name.size() ? std::strtoll(name.c_str() + digits, nullptr, 10) : 0;
    if (number > highest) highest = number, newest = folder / name;
  }
  return newest;
}

}  // namespace

bool is_tensorflow(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    if (fs::exists(path / kSavedModel, error)) return true;
    if (fs::is_directory(path / "checkpoint", error)) return is_tensorflow(path / "checkpoint");
    for (const auto& item : fs::directory_iterator(path, error))
      if (is_part(item.path())) return true;
    const fs::path named = read_index(path).newest;
    return !named.empty() && is_table(path / named.filename());
  }
  return is_part(path) || path.extension() == ".pb" || fs::exists(path.string() + ".index", error) ||
         fs::exists(path.string() + ".meta", error) || is_table(path);
}

fs::path tensorflow_prefix(const fs::path& path) {
  fs::path prefix = path;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    if (fs::is_directory(path / "checkpoint", error)) return tensorflow_prefix(path / "checkpoint");
    prefix = fs::exists(path / kSavedModel, error) ? path / "variables" / "variables" : newest_in(path);
  } else if (is_part(path)) {
    prefix.replace_extension();
  }
  const fs::path index = prefix.string() + ".index";
  if (is_table(index) || is_table(prefix)) return prefix;
  if (path.extension() == ".pb" || prefix.filename() == "variables")
    throw CheckpointError(
        fmt::format("{}: is a graph of TensorFlow whose weights cannot be read; name a checkpoint of it (model.ckpt)",
                    path.string()),
        ExitCode::kUsage);
  throw CheckpointError(
      fmt::format("{}: is no TensorFlow checkpoint: {}", path.string(),
                  fs::exists(index, error) ? index.string() + " is no table" : "there is no " + index.string()),
      ExitCode::kUsage);
}

TensorFlowCheckpoint read_tensorflow(const fs::path& prefix) {
  const fs::path index = prefix.string() + ".index";
  if (!fs::exists(index)) return by_names(read_slices(prefix));
  const TensorBundle bundle = read_bundle(prefix);
  return bundle.object_graph.empty() ? by_names(bundle.tensors) : by_objects(index, bundle);
}

}  // namespace osprey::checkpoint
