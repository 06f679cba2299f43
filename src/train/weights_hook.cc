#include "train/weights_hook.h"

#include <fmt/format.h>

#include "osprey/base/error.h"
#include "osprey/checkpoint/directory.h"
#include "osprey/checkpoint/model_weights.h"

namespace osprey::train {

WeightsHook::WeightsHook(std::filesystem::path folder, int64_t every) : folder_(std::move(folder)), every_(every) {
  std::error_code failed;
  std::filesystem::create_directories(folder_, failed);
  if (failed) throw DataError(folder_.string() + ": cannot be created: " + failed.message());
}

void WeightsHook::after_step(const StepEvent& event) {
  const TrainState& state = event.state;
  if (!event.last && state.step % every_ != 0) return;
  const checkpoint::Checkpoint all = snapshot(state);
  checkpoint::Checkpoint weights;
  for (const char* attribute : {"step", "num_classes"}) weights.attributes[attribute] = all.attributes.at(attribute);
  for (const char* kind : {"model/", "average/"})
    for (const auto& [name, tensor] : checkpoint::with_prefix(all, kind)) weights.tensors["model/" + name] = tensor;
  checkpoint::copy_description(folder_.parent_path(), folder_);
  checkpoint::write(folder_ / fmt::format("ckpt-{}{}", state.step, checkpoint::kExtension), weights);
}

}  // namespace osprey::train
