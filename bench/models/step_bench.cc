// Times the parts of a training step on one constant batch, with the data left out, and prints one JSON object.
//   build/release/bin/step_bench --pipeline_config F [--batch_size 8] [--precision fp32|bf16] [--steps 10] [--set
//   a.b=c]
#include <ATen/autocast_mode.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "osprey/config/pipeline.h"
#include "osprey/models/builder.h"
#include "osprey/optim/builder.h"

namespace osprey {
namespace {

using Clock = std::chrono::steady_clock;

/// Seconds of each part of each step.
class Times {
 public:
  template <class Part>
  auto measure(const std::string& name, Part part) {
    const auto start = Clock::now();
    auto result = part();
    seconds_[name].push_back(std::chrono::duration<double>(Clock::now() - start).count());
    return result;
  }
  double median(const std::string& name) const {
    std::vector<double> values = seconds_.at(name);
    std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
  }
  nlohmann::json medians() const {
    nlohmann::json result;
    for (const auto& entry : seconds_) result[entry.first] = median(entry.first);
    return result;
  }
  void clear() { seconds_.clear(); }

 private:
  std::map<std::string, std::vector<double>> seconds_;
};

Batch constant_batch(const models::DetectionModel& model, int64_t size) {
  at::manual_seed(1);
  const auto [height, width] = model.input_size();
  Batch batch;
  batch.images = at::randint(0, 256, {size, 3, height, width}, at::kByte).contiguous(at::MemoryFormat::ChannelsLast);
  batch.true_shapes = at::tensor({height, width}, at::kLong).repeat({size, 1});
  const at::Tensor corner = at::rand({size, 100, 2}) * 0.7, extent = at::rand({size, 100, 2}) * 0.25 + 0.05;
  batch.valid = at::arange(100).lt(7).repeat({size, 1});  // seven boxes a picture
  batch.weights = batch.valid.to(at::kFloat);
  batch.boxes = at::cat({corner, corner + extent}, 2) * batch.weights.unsqueeze(2);
  batch.classes = at::randint(0, model.num_classes(), {size, 100}, at::kLong);
  batch.image_weights = at::ones({size});
  batch.example_keys = at::arange(size);
  return batch;
}

double peak_mebibytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

int run(int argc, char** argv) {
  cli::keep_freed_memory();
  CLI::App app("Times the parts of a training step");
  std::string file, precision = "fp32";
  std::vector<std::string> overrides;
  int64_t batch_size = 8, steps = 10, warmup = 3;
  app.add_option("--pipeline_config", file)->required();
  app.add_option("--batch_size", batch_size);
  app.add_option("--precision", precision)->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--steps", steps);
  app.add_option("--set", overrides);
  CLI11_PARSE(app, argc, argv);

  const double before = peak_mebibytes();
  const config::Pipeline pipeline = config::load_pipeline(file, overrides);
  const auto model = models::build_model(pipeline.root());
  model->train();
  optim::NamedTensors parameters;
  for (const auto& item : model->named_parameters()) parameters.emplace_back(item.key(), item.value());
  const auto train = pipeline.root().child("train_config", pipeline.message->train_config());
  const auto optimizer = optim::build_optimizer(train.child("optimizer", train->optimizer()), parameters,
                                                optim::arithmetic_of(pipeline.root()));
  const Batch batch = constant_batch(*model, batch_size);
  const bool bf16 = precision == "bf16";
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);

  Times times;
  for (int64_t step = 0; step < warmup + steps; ++step) {
    if (step == warmup) times.clear();
    times.measure("total", [&] {
      const models::ModelInput input = times.measure("preprocess", [&] { return model->preprocess(batch); });
      const Predictions predictions = times.measure("forward", [&] {
        at::autocast::set_autocast_enabled(at::kCPU, bf16);
        Predictions result = model->predict(input);
        at::autocast::set_autocast_enabled(at::kCPU, false);
        at::autocast::clear_cache();
        return result;
      });
      const at::Tensor loss = times.measure("targets_and_losses", [&] {
        const Losses losses = model->loss(predictions, batch);
        return (losses.terms[0].sum + losses.terms[1].sum) / losses.normalizer.clamp_min(1);
      });
      const at::Tensor penalty = times.measure("regularization", [&] { return model->regularization_loss(); });
      times.measure("backward", [&] {
        (loss + penalty).backward();
        return 0;
      });
      return times.measure("update", [&] {
        optimizer->update(step);
        model->commit_statistics();
        for (auto& entry : parameters) entry.second.mutable_grad() = at::Tensor();
        return 0;
      });
    });
  }
  const nlohmann::json result = {{"what", "train step"},
                                 {"config", std::filesystem::path(file).stem().string()},
                                 {"batch_size", batch_size},
                                 {"precision", precision},
                                 {"threads", at::get_num_threads()},
                                 {"images_per_second", static_cast<double>(batch_size) / times.median("total")},
                                 {"median_seconds", times.medians()},
                                 {"peak_memory_mib", peak_mebibytes() - before}};
  std::cout << result.dump() << std::endl;
  return 0;
}

}  // namespace
}  // namespace osprey

int main(int argc, char** argv) { return osprey::run(argc, argv); }
