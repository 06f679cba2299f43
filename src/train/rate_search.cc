#include "osprey/train/rate_search.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "osprey/base/error.h"
#include "osprey/base/json_text.h"
#include "osprey/config/batch_scaling.h"
#include "osprey/data/batch_source.h"
#include "train/start.h"
#include "train/training_source.h"
#include "train/trial.h"

namespace osprey::train {
namespace {

constexpr double kLowestRate = 1e-6, kHighestRate = 10, kTooHigh = 4;
constexpr size_t kFewest = 10;  // steps that say something

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Of the line through values one apart.
double slope(std::span<const double> values) {
  const double middle = static_cast<double>(values.size() - 1) / 2;
  double up = 0, across = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double x = static_cast<double>(i) - middle;
    up += x * values[i];
    across += x * x;
  }
  return up / across;
}

/// Keeps rate and loss of each step, and tells when the loss has risen too far.
class Recorder final : public Hook {
 public:
  void after_step(const StepEvent& event) override {
    const double loss = event.result.losses.back().value.item<double>();
    if (!std::isfinite(loss) || !event.result.ok()) {
      ended_ = true;
      return;
    }
    curve.rates.push_back(event.result.learning_rate);
    curve.losses.push_back(loss);
    if (curve.losses.size() < kWindow) return;
    const double now = mean(std::span(curve.losses).last(kWindow));
    lowest_ = std::min(lowest_, now);
    ended_ = now > kTooHigh * lowest_;
  }
  bool ended() const { return ended_; }

  RateCurve curve;

 private:
  static constexpr size_t kWindow = 5;  // steps whose mean counts
  double lowest_ = std::numeric_limits<double>::infinity();
  bool ended_ = false;
};

/// The field of a schedule that says how high it is, and its value, for the batch of this config. Where it begins with
/// a warm-up, that is the rate which that leads to.
struct RateField {
  std::string path;
  std::optional<double> value;  ///< none where there is no schedule, or one of another program
};

RateField rate_field(const proto::Optimizer& optimizer, const proto::LearningRate& schedule) {
  const auto member_of = [](const google::protobuf::Message& message) {
    return message.GetReflection()->GetOneofFieldDescriptor(message, message.GetDescriptor()->oneof_decl(0));
  };
  const std::string place = "train_config.optimizer." + member_of(optimizer)->name() + ".learning_rate";
  const auto* member = member_of(schedule);
  if (member == nullptr || schedule.has_custom()) return {place, std::nullopt};
  if (const auto& steps = schedule.manual_step_learning_rate(); steps.warmup() && steps.schedule_size() > 0)
    return {place + ".manual_step_learning_rate.schedule[0].learning_rate", steps.schedule(0).learning_rate()};
  const auto& kind = schedule.GetReflection()->GetMessage(schedule, member);
  for (const char* name : {"learning_rate", "initial_learning_rate", "learning_rate_base"})
    if (const auto* field = kind.GetDescriptor()->FindFieldByName(name))
      return {fmt::format("{}.{}.{}", place, member->name(), name), kind.GetReflection()->GetFloat(kind, field)};
  return {place, std::nullopt};
}

/// Rates that rise from the lowest to the highest.
void set_rising(proto::LearningRate& schedule, int64_t steps) {
  auto& rising = *schedule.mutable_exponential_decay_learning_rate();
  rising.Clear();
  rising.set_initial_learning_rate(kLowestRate);
  rising.set_decay_steps(static_cast<uint32_t>(steps - 1));
  rising.set_decay_factor(kHighestRate / kLowestRate);
  rising.set_staircase(false);
}

void say(const RateAdvice& advice, const RateField& field) {
  if (advice.steepest == 0) {
    SPDLOG_WARN("No learning rate from {:g} to {:g} lowers the loss", kLowestRate, kHighestRate);
    return;
  }
  SPDLOG_INFO(
      "The loss falls fastest at a learning rate of {:.2g} and is lowest at {:.2g}: rates between them are worth a "
      "try, the higher ones with a warm-up. {}{}",
      advice.steepest, advice.lowest, field.path, field.value ? fmt::format(" is {:.2g}", *field.value) : " says none");
}

}  // namespace

RateAdvice advise(const RateCurve& curve) {
  const size_t steps = curve.losses.size(), window = std::max<size_t>(5, steps / 10);
  TORCH_CHECK(steps >= kFewest && curve.rates.size() == steps, "a curve needs at least ", kFewest, " steps, got ",
              steps);
  const std::span losses(curve.losses);
  const auto middle = [&](size_t begin) { return curve.rates[begin + window / 2]; };
  double least = std::numeric_limits<double>::infinity();
  size_t lowest = 0;
  for (size_t begin = 0; begin + window <= steps; ++begin)
    if (const double here = mean(losses.subspan(begin, window)); here < least) {
      least = here;
      lowest = begin;
    }
  RateAdvice advice{.steepest = 0, .lowest = middle(lowest)};
  double fastest = 0;
  for (size_t begin = 0; begin <= lowest; ++begin)
    if (const double here = slope(losses.subspan(begin, window)); here < fastest) {
      fastest = here;
      advice.steepest = middle(begin);
    }
  return advice;
}

std::string find_learning_rate(config::Pipeline pipeline, const JobOptions& options, int64_t steps) {
  TORCH_CHECK(steps >= 20, "a search for the learning rate needs at least 20 steps, got ", steps);
  pipeline.message->mutable_train_input_reader()->clear_num_epochs();  // the search may take more than a training
  proto::Optimizer& optimizer = *pipeline.message->mutable_train_config()->mutable_optimizer();
  if (optimizer.has_custom())
    throw ConfigError(
        "train_config.optimizer: the learning rate of an optimizer of another program cannot be searched");
  RateField field;
  if (proto::LearningRate* const schedule = config::learning_rate_of(optimizer); schedule != nullptr) {
    const std::string path = rate_field(optimizer, *schedule).path;
    // Later it would scale the rates that are tried.
    if (const std::string scaled = config::scale_to_batch(pipeline); !scaled.empty()) SPDLOG_INFO("{}", scaled);
    field = {path, rate_field(optimizer, *schedule).value};
    set_rising(*schedule, steps);
  }
  if (!options.model_dir.empty()) SPDLOG_WARN("--model_dir is not looked at: the search begins as a new training does");
  Assembly assembly = assemble(std::move(pipeline), options);  // which says so where there is no optimizer
  if (!assembly.train().fine_tune_checkpoint().empty()) fine_tune(assembly);
  const auto source = training_source(assembly, options);
  Recorder recorder;
  try {
    make_trial_steps(assembly, options, *source, {&recorder}, steps, [&] { return recorder.ended() ? 1 : 0; });
  } catch (const DivergedError&) {
    // Which is how a curve may end.
  }
  const RateCurve& curve = recorder.curve;
  if (curve.losses.size() < kFewest)
    throw DivergedError(
        fmt::format("the loss is not finite, or has risen to {} times its lowest, after {} steps at rates "
                    "up to {:.2g}: the learning rate is not what is wrong",
                    kTooHigh, curve.losses.size(), curve.rates.empty() ? kLowestRate : curve.rates.back()));
  const RateAdvice advice = advise(curve);
  say(advice, field);
  nlohmann::ordered_json result;
  result["loss_falls_fastest_at"] = advice.steepest > 0 ? nlohmann::ordered_json(advice.steepest) : nullptr;
  result["loss_is_lowest_at"] = advice.lowest;
  result["configured_learning_rate"] = field.value ? nlohmann::ordered_json(*field.value) : nullptr;
  for (size_t i = 0; i < curve.losses.size(); ++i) result["curve"].push_back({curve.rates[i], curve.losses[i]});
  return json_text(result);
}

}  // namespace osprey::train
