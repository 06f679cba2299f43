// What summing gradients over the replicas of one machine costs a training step, by bucket size and number format.
// Prints one JSON object; starts its replicas itself.
//   build/release/bin/replicas_bench --pipeline_config F [--clones 2] [--batch_size 2] [--bucket_mib 1,8,64]
//   [--format fp32] [--steps 5] [--first_layer_first] [--trace T.json] [--set a.b=c]
// A step here is forward, backward and sum. `alone` are the sums of the same buckets without a backward pass beside
// them; `waiting` is the time from the end of the backward pass, that of the slowest replica, to the last sum, with the
// gradients back in their places.
//   hidden = 1 - waiting / alone
// is the share of the sums that costs no time. --trace writes one step of the last bucket size in the format of
// chrome://tracing.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <condition_variable>
#include <deque>
#include <fstream>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/cli.h"
#include "models/constant_batch.h"
#include "models/model_flags.h"
#include "osprey/base/clock.h"
#include "osprey/base/logging.h"
#include "osprey/config/pipeline.h"
#include "osprey/models/builder.h"
#include "osprey/train/launcher.h"
#include "osprey/train/step.h"

namespace osprey {
namespace {

/// Replicas that note when each of their sums was asked for and when it was there.
class WatchedReplicas final : public train::Replicas {
 public:
  struct Sum {
    double begin = 0, end = 0;
    int64_t bytes = 0;
  };

  explicit WatchedReplicas(train::Replicas& inner) : inner_(inner), watcher_([this] { watch(); }) {}
  ~WatchedReplicas() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    watcher_.join();
  }

  const train::ReplicaPlace& place() const override { return inner_.place(); }
  std::unique_ptr<train::PendingSum> sum_later(at::Tensor tensor) override {
    const std::lock_guard lock(mutex_);
    sums_.push_back({now(), 0, static_cast<int64_t>(tensor.nbytes())});
    pending_.push_back(inner_.sum_later(std::move(tensor)));
    changed_.notify_all();
    return std::make_unique<Watched>(*this, sums_.size() - 1);
  }
  /// The small sum of a step, which is made when the backward pass has ended.
  void sum(const at::Tensor& tensor) override {
    computed_ = now();
    inner_.sum(tensor);
  }
  void copy_from_chief(const std::vector<at::Tensor>& tensors) override { inner_.copy_from_chief(tensors); }
  std::vector<std::string> texts(const std::string& text) override { return inner_.texts(text); }
  std::vector<std::string> gather(const std::string& bytes) override { return inner_.gather(bytes); }
  void meet() override { inner_.meet(); }

  const std::deque<Sum>& sums() const { return sums_; }
  double computed() const { return computed_; }

 private:
  class Watched final : public train::PendingSum {
   public:
    Watched(WatchedReplicas& replicas, size_t number) : replicas_(replicas), number_(number) {}
    void wait() override {
      std::unique_lock lock(replicas_.mutex_);
      replicas_.changed_.wait(lock, [&] { return replicas_.sums_[number_].end > 0; });
    }

   private:
    WatchedReplicas& replicas_;
    size_t number_;
  };

  void watch() {
    for (size_t number = 0;; ++number) {
      train::PendingSum* next = nullptr;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return ends_ || number < pending_.size(); });
        if (number >= pending_.size()) return;
        next = pending_[number].get();
      }
      next->wait();
      const std::lock_guard lock(mutex_);
      sums_[number].end = now();
      changed_.notify_all();
    }
  }

  train::Replicas& inner_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ends_ = false;
  double computed_ = 0;
  std::deque<Sum> sums_;
  std::deque<std::unique_ptr<train::PendingSum>> pending_;
  std::thread watcher_;
};

struct Flags {
  ModelFlags model;
  int64_t clones = 2, steps = 5;
  std::vector<double> bucket_mib{1, 2, 4, 8, 16, 32, 64, 256};
  std::string format = "fp32", trace;
  bool first_layer_first = false;

  explicit Flags(CLI::App& app) : model(app, 2) {
    app.add_option("--clones", clones)->check(cli::at_least(2));
    app.add_option("--steps", steps)->check(cli::at_least(1));
    app.add_option("--bucket_mib", bucket_mib)->delimiter(',');
    app.add_option("--format", format)->check(CLI::IsMember({"fp32", "bf16"}));
    app.add_option("--trace", trace);
    app.add_flag("--first_layer_first", first_layer_first, "Buckets in the order of the forward pass");
  }
};

/// One replica of the measurement.
class Bench {
 public:
  Bench(const Flags& flags, train::Replicas& replicas)
      : flags_(flags),
        replicas_(replicas),
        model_(models::build_model(config::load_pipeline(flags.model.pipeline_config, flags.model.overrides).root())) {
    train::to_channels_last(*model_);
    model_->train();
    batch_ = constant_batch(*model_, flags.model.batch_size / flags.clones);
  }

  nlohmann::json run() {
    const double without = median([&] {
      const double start = now();
      step({});
      return now() - start;
    });
    nlohmann::json rows = nlohmann::json::array();
    for (const double mebibytes : flags_.bucket_mib) {
      WatchedReplicas watched(replicas_);
      train::GradientSum sum(watched, parameters(), options(mebibytes));
      std::vector<double> waits;
      const double with = median([&] {
        const double start = now();
        step({.replicas = &sum});
        const double end = now();
        waits.push_back(
            static_cast<double>(-replicas_.largest(static_cast<int64_t>((watched.computed() - end) * 1e9))) / 1e9);
        return end - start;
      });
      const double alone = median([&] {
        const double start = now();
        sum.begin();
        sum.finish();
        return now() - start;
      });
      const double waiting = middle({waits.begin() + 1, waits.end()});
      rows.push_back({{"bucket_mib", mebibytes},
                      {"step_seconds", with},
                      {"alone_seconds", alone},
                      {"waiting_seconds", waiting},
                      {"hidden", 1 - waiting / alone}});
    }
    if (!flags_.trace.empty()) trace();
    int64_t numbers = 0;
    for (const at::Tensor& parameter : model_->parameters()) numbers += parameter.numel();
    return {{"what", "sums over replicas"},
            {"config", std::filesystem::path(flags_.model.pipeline_config).stem().string()},
            {"replicas", replicas_.size()},
            {"batch_size", flags_.model.batch_size},
            {"threads", at::get_num_threads()},
            {"format", flags_.format},
            {"first_layer_first", flags_.first_layer_first},
            {"gradient_mib", static_cast<double>(numbers) * number_bytes() / (1 << 20)},
            {"without_seconds", without},
            {"buckets", rows}};
  }

 private:
  std::vector<at::Tensor> parameters() const {
    std::vector<at::Tensor> result = model_->parameters();
    if (flags_.first_layer_first) std::reverse(result.begin(), result.end());
    return result;
  }
  double number_bytes() const { return flags_.format == "bf16" ? 2 : 4; }
  train::GradientSum::Options options(double mebibytes) const {
    return {.bucket_bytes = static_cast<int64_t>(mebibytes * (1 << 20)),
            .format = flags_.format == "bf16" ? at::kBFloat16 : at::kFloat};
  }
  void step(const train::StepOptions& options) { train::accumulate_gradients(*model_, batch_, options); }

  static double middle(std::vector<double> values) {
    const auto place = values.begin() + static_cast<int64_t>(values.size() / 2);
    std::nth_element(values.begin(), place, values.end());
    return *place;
  }
  /// Of the seconds that several calls give, on all replicas at a time; the first warms up.
  template <class Call>
  double median(Call call) {
    std::vector<double> seconds;
    for (int64_t i = 0; i <= flags_.steps; ++i) {
      replicas_.meet();
      seconds.push_back(call());
    }
    return middle({seconds.begin() + 1, seconds.end()});
  }

  /// One step of all replicas; a process of the trace is a replica.
  void trace() {
    WatchedReplicas watched(replicas_);
    train::GradientSum sum(watched, parameters(), options(flags_.bucket_mib.back()));
    replicas_.meet();
    const double start = now();
    step({.replicas = &sum});
    const double end = now();
    nlohmann::json events = nlohmann::json::array();
    const auto add = [&](const std::string& name, int64_t row, double from, double to) {
      events.push_back({{"name", name},
                        {"ph", "X"},
                        {"pid", replicas_.rank()},
                        {"tid", row},
                        {"ts", std::round(from * 1e6)},
                        {"dur", std::round((to - from) * 1e6)}});
    };
    add("forward and backward", 0, start, watched.computed());
    add("waiting for sums", 0, watched.computed(), end);
    for (const WatchedReplicas::Sum& one : watched.sums())
      add(fmt::format("sum of {:.1f} MiB", static_cast<double>(one.bytes) / (1 << 20)), 1, one.begin, one.end);
    nlohmann::json all = nlohmann::json::array();
    for (const std::string& text : replicas_.gather(events.dump())) {
      const nlohmann::json own = nlohmann::json::parse(text);
      all.insert(all.end(), own.begin(), own.end());
    }
    if (!replicas_.is_chief()) return;
    double first = std::numeric_limits<double>::infinity();  // replicas of one machine have one clock
    for (const nlohmann::json& event : all) first = std::min(first, event["ts"].get<double>());
    for (nlohmann::json& event : all) event["ts"] = event["ts"].get<double>() - first;
    std::ofstream(flags_.trace) << nlohmann::json{{"traceEvents", all}}.dump(1) << '\n';
  }

  const Flags& flags_;
  train::Replicas& replicas_;
  std::shared_ptr<models::DetectionModel> model_;
  Batch batch_;
};

/// Starts all replicas, or is one of them.
int run(const Flags& flags, int argc, char** argv) {
  const auto place = train::place_from_environment(std::getenv);
  if (!place) {
    train::LaunchOptions launch;
    launch.arguments.assign(argv, argv + argc);
    launch.clones = flags.clones;
    return train::launch_replicas(launch);
  }
  const auto replicas = train::join_replicas(*place, 300);
  const nlohmann::json result = Bench(flags, *replicas).run();
  if (replicas->is_chief()) std::cout << result.dump() << std::endl;
  replicas->meet();
  return 0;
}

}  // namespace
}  // namespace osprey

int main(int argc, char** argv) {
  CLI::App app{"Times the sums of gradients over replicas."};
  osprey::Flags flags(app);
  return osprey::cli::run_with_code(app, "replicas_bench --pipeline_config pipeline.config", argc, argv,
                                    [&] { return osprey::run(flags, argc, argv); });
}
