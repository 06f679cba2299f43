#include "train/training_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "osprey/data/fake_source.h"

namespace osprey::train {

void take_share(data::SourceOptions& source, const ReplicaPlace& place) {
  source.share = place.rank;
  source.num_shares = place.size;
  if (source.num_workers == 0)
    source.num_workers = std::max<int64_t>(1, std::thread::hardware_concurrency() / place.local_size);
}

std::unique_ptr<data::BatchSource> training_source(const Assembly& assembly, const JobOptions& options) {
  data::SourceOptions source = data::train_options(assembly.root());
  source.pin_memory = assembly.state.model->parameters().front().is_cuda();
  if (options.replicas != nullptr) {
    take_share(source, options.replicas->place());
    source.batch_size /= source.num_shares;
  }
  if (options.use_fake_data) return data::make_fake_source(source);
  const auto root = assembly.root();
  return data::make_source(root.child("train_input_reader", root->train_input_reader()), source);
}

int64_t total_steps(const Assembly& assembly, int64_t num_examples) {
  const proto::TrainConfig& train = assembly.train();
  const int64_t asked =
      train.has_num_epochs() ? steps_for(train.num_epochs(), num_examples, assembly.batch_size) : train.num_steps();
  return steps_within(asked, assembly.train_reader().num_epochs() * num_examples / assembly.batch_size);
}

std::string plan_text(int64_t num_steps, int64_t batch_size, int64_t num_examples) {
  if (num_steps == 0) return fmt::format("no end (num_steps is 0) × batch {}, {} images", batch_size, num_examples);
  const double epochs =
      static_cast<double>(num_steps * batch_size) / static_cast<double>(std::max<int64_t>(1, num_examples));
  return fmt::format("{} steps × batch {} = {:.4g} epochs of {} images", num_steps, batch_size, epochs, num_examples);
}

}  // namespace osprey::train
