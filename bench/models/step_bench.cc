// Times the parts of a training step on one constant batch, with the data left out, and prints one JSON object:
// seconds, and what a roofline takes, the arithmetic and the memory traffic of each part and the rate of a copy.
//   build/release/bin/step_bench --pipeline_config F [--batch_size 8] [--precision fp32|bf16|fp16] [--device cpu]
//   [--steps 10] [--set a.b=c]
// So many steps are made twice: then with the clock of convolutions, which the others do without.
#include <ATen/record_function.h>

#include <atomic>
#include <iostream>
#include <nlohmann/json.hpp>

#include "../src/nn/autocast.h"
#include "cli/cli.h"
#include "constant_batch.h"
#include "measure.h"
#include "model_flags.h"
#include "osprey/base/clock.h"
#include "osprey/config/pipeline.h"
#include "osprey/models/builder.h"
#include "osprey/optim/builder.h"
#include "osprey/optim/gradients.h"
#include "osprey/train/step.h"
#include "work_counter.h"

namespace osprey {
namespace {

/// Adds up the seconds spent in convolutions and their gradients, on all threads that call them; batch norm, activation
/// and the sums of residual units count where a convolution does them as it reads and writes its maps. It looks at
/// every operation, which takes about a hundredth of a step.
class ConvolutionClock {
 public:
  ConvolutionClock()
      : handle_(at::addGlobalCallback(at::RecordFunctionCallback(before, after).scopes({at::RecordScope::FUNCTION}))) {}
  ~ConvolutionClock() { at::removeCallback(handle_); }
  ConvolutionClock(const ConvolutionClock&) = delete;
  ConvolutionClock& operator=(const ConvolutionClock&) = delete;

  static double seconds() { return total; }

 private:
  struct Start : at::ObserverContext {
    double time = now();
  };
  static bool counts(std::string_view name) {
    return name.starts_with("aten::convolution") ||
           (name.starts_with("osprey::") && name.find("convolution") != name.npos);
  }
  static std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& function) {
    if (!counts(function.name()) || inside++ > 0) return nullptr;
    return std::make_unique<Start>();
  }
  static void after(const at::RecordFunction& function, at::ObserverContext* context) {
    if (counts(function.name())) --inside;
    if (context != nullptr) total += now() - static_cast<Start*>(context)->time;
  }
  at::CallbackHandle handle_;
  inline static std::atomic<double> total = 0;
  inline static thread_local int inside = 0;  ///< how many of this thread's are open
};

/// Seconds of each part of each step, by some clock.
template <class Clock>
class Times {
 public:
  explicit Times(Clock clock) : clock_(clock) {}

  template <class Part>
  auto measure(const std::string& name, Part part) {
    const double start = clock_();
    auto result = part();
    seconds_[name].push_back(clock_() - start);
    return result;
  }
  double median(const std::string& name) const { return median(seconds_.at(name)); }
  nlohmann::json medians() const {
    nlohmann::json result;
    for (const auto& [name, values] : seconds_) result[name] = median(values);
    return result;
  }
  void clear() { seconds_.clear(); }

 private:
  static double median(std::vector<double> values) {
    std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
  }

  Clock clock_;
  std::map<std::string, std::vector<double>> seconds_;
};

/// The work of each part of one step.
class Works {
 public:
  template <class Part>
  auto measure(const std::string& name, Part part) {
    const Work before = counter_.sum();
    auto result = part();
    const Work after = counter_.sum();
    works_[name] = {{"gflop", (after.operations - before.operations) * 1e-9},
                    {"gib", (after.bytes - before.bytes) / kGibibyte}};
    return result;
  }
  const nlohmann::json& works() const { return works_; }

  static constexpr double kGibibyte = 1 << 30;

 private:
  WorkCounter counter_;
  nlohmann::json works_;
};

/// GiB per second, read and written, of a copy of a quarter of a GiB.
double copy_rate(const ModelFlags& flags) {
  const at::Tensor from = at::ones({1 << 26}, at::Device(flags.device)), to = at::empty_like(from);
  to.copy_(from);
  flags.wait();
  const double seconds = best_of(5, [&] {
    to.copy_(from);
    flags.wait();
  });
  return 2 * static_cast<double>(from.nbytes()) / Works::kGibibyte / seconds;
}

void time_step(const ModelFlags& flags, int64_t steps) {
  constexpr int64_t warmup = 3;
  const double before = peak_mebibytes();
  const config::Pipeline pipeline = config::load_pipeline(flags.pipeline_config, flags.overrides);
  const at::Device device(flags.device);
  const auto model = models::build_model(pipeline.root());
  model->to(device);
  train::to_channels_last(*model);
  model->train();
  optim::NamedTensors parameters;
  for (const auto& item : model->named_parameters()) parameters.emplace_back(item.key(), item.value());
  const auto train = pipeline.root().child("train_config", pipeline.message->train_config());
  const auto optimizer = optim::build_optimizer(train.child("optimizer", train->optimizer()), parameters,
                                                optim::arithmetic_of(pipeline.root()));
  optim::GradientPipeline gradients(parameters, {}, model->regularized_weights());
  const Batch batch = constant_batch(*model, flags.batch_size, device);

  const auto run_step = [&](auto& meter, int64_t number) {
    meter.measure("total", [&] {
      const models::ModelInput input = meter.measure("preprocess", [&] { return model->preprocess(batch); });
      const Predictions predictions = meter.measure("forward", [&] {
        const nn::Autocast autocast(device.type(), flags.map_type());
        return model->predict(input);
      });
      const at::Tensor loss = meter.measure("targets_and_losses", [&] {
        const Losses losses = model->loss(predictions, batch);
        return (losses.terms[0].sum + losses.terms[1].sum) / losses.normalizer.clamp_min(1);
      });
      meter.measure("backward", [&] {
        loss.backward();
        return 0;
      });
      meter.measure("regularization", [&] { return gradients.finish().penalty; });
      return meter.measure("update", [&] {
        optimizer->update(number);
        model->commit_statistics();
        for (auto& entry : parameters) entry.second.mutable_grad() = at::Tensor();
        return 0;
      });
    });
  };
  Times times([&] {
    flags.wait();
    return now();
  });
  int64_t step = 0;
  for (; step < warmup + steps; ++step) {
    if (step == warmup) times.clear();
    run_step(times, step);
  }
  const double peak_memory = peak_mebibytes() - before;
  Times outside([&] {  // on a GPU only the time of starting convolutions is left out
    flags.wait();
    return now() - ConvolutionClock::seconds();
  });
  for (const ConvolutionClock clock; step < warmup + 2 * steps; ++step) run_step(outside, step);
  Works works;
  run_step(works, step);
  nlohmann::json result = {{"what", "train step"},
                           {"config", std::filesystem::path(flags.pipeline_config).stem().string()},
                           {"batch_size", flags.batch_size},
                           {"precision", flags.precision},
                           {"device", flags.device},
                           {"threads", at::get_num_threads()},
                           {"images_per_second", static_cast<double>(flags.batch_size) / times.median("total")},
                           {"median_seconds", times.medians()},
                           {"of_it_outside_convolutions", outside.medians()},
                           {"work", works.works()},
                           {"copy_gib_per_second", copy_rate(flags)}};
  if (device.is_cpu()) result["peak_memory_mib"] = peak_memory;
  std::cout << result.dump() << std::endl;
}

}  // namespace
}  // namespace osprey

int main(int argc, char** argv) {
  CLI::App app{"Times the parts of a training step."};
  osprey::ModelFlags flags(app, 8);
  int64_t steps = 10;
  app.add_option("--steps", steps)->check(osprey::cli::at_least(1));
  return osprey::cli::run(app, "step_bench --pipeline_config pipeline.config", argc, argv,
                          [&] { osprey::time_step(flags, steps); });
}
