// How fast this machine runs the convolutions of a network, each on its own: the limit of what a training step can
// reach. Prints one JSON object. `peak` is the best rate of any convolution of the network in any direction that makes
// all its products: what the machine multiplies. `best` is the same of all; those by tiles make fewer products, and
// count as if they made all.
//   build/release/bin/convolution_bench --pipeline_config F [--batch_size 2] [--precision fp32|bf16|fp16]
//   [--device cpu] [--calls 3] [--set a.b=c]
// A multiplication and its addition count as two operations, as in every statement of FLOP/s.
#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "constant_batch.h"
#include "measure.h"
#include "model_flags.h"
#include "osprey/config/pipeline.h"
#include "osprey/kernels/convolution_gradient.h"
#include "osprey/kernels/depthwise_convolution.h"
#include "osprey/kernels/pointwise_convolution.h"
#include "osprey/kernels/sliding_convolution.h"
#include "osprey/models/builder.h"
#include "osprey/train/step.h"

namespace osprey {
namespace {

/// Convolutions of one network that have the same arguments in all but their numbers.
struct Convolution {
  at::Tensor x, weights;
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups = 1, count = 0;
  std::optional<kernels::SlidingWindow> depthwise;  ///< it has been taken that way; `x` is without its padding

  /// The same for the operations of libtorch.
  Convolution padded() const {
    if (!depthwise) return *this;
    Convolution result = *this;
    const auto& [top, bottom, left, right] = depthwise->padding;
    if (top == bottom && left == right) {
      result.padding = {top, left};
    } else {
      result.x = at::constant_pad_nd(x, {left, right, top, bottom});
    }
    return result;
  }
  at::Tensor forward() const { return at::conv2d(x, weights, {}, stride, padding, dilation, groups); }
  void backward(const at::Tensor& gradient, bool of_x, bool of_weights) const {
    at::convolution_backward(gradient, x, weights, at::OptionalIntArrayRef(), stride, padding, dilation, false, {0, 0},
                             groups, {of_x, of_weights, false});
  }
  kernels::ConvolutionWindow window() const {
    return {{weights.size(2), weights.size(3)}, stride[0], {padding[0], padding[1]}};
  }
  bool pointwise() const { return stride[0] == 1 && padding[0] == 0 && padding[1] == 0; }
  bool in_tiles(const at::Tensor& own_weights) const {
    return stride[0] == 1 && padding == std::vector<int64_t>{1, 1} && kernels::takes_sliding(x, own_weights);
  }
  std::string name() const {
    return fmt::format("x {} weights {} stride {} groups {}", fmt::join(x.sizes(), "x"),
                       fmt::join(weights.sizes(), "x"), stride[0], groups);
  }
};

using Convolutions = std::map<std::string, Convolution>;
thread_local Convolutions* seen = nullptr;
thread_local int inside = 0;  ///< how many are open: an operator with a gradient calls itself, or libtorch's

bool is_convolution(std::string_view name) {
  return name == "aten::convolution" || name == "osprey::depthwise_convolution" ||
         name == "osprey::pointwise_convolution" || name == "osprey::sliding_convolution";
}

void leave(const at::RecordFunction& function, at::ObserverContext*) {
  if (is_convolution(function.name())) --inside;
}

std::unique_ptr<at::ObserverContext> note(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  if (!is_convolution(name) || inside++ > 0) return nullptr;
  const auto inputs = function.inputs();
  if (name == "osprey::depthwise_convolution") {
    kernels::SlidingWindow window{inputs[2].toInt(), {}};
    std::ranges::copy(inputs[3].toIntVector(), window.padding.begin());
    Convolution call{
        inputs[0].toTensor().detach(), inputs[1].toTensor().detach(), {window.stride, window.stride}, {0, 0}, {1, 1}};
    call.groups = call.x.size(1);
    call.depthwise = window;
    ++seen->emplace(call.name(), std::move(call)).first->second.count;
    return nullptr;
  }
  if (name == "osprey::pointwise_convolution" || name == "osprey::sliding_convolution") {
    const bool tiles = name == "osprey::sliding_convolution";
    const int64_t padding = tiles ? 1 : 0;
    for (const at::Tensor& x : tiles ? inputs[0].toTensorVector() : std::vector<at::Tensor>{inputs[0].toTensor()}) {
      Convolution call{x.detach(), inputs[1].toTensor().detach(), {1, 1}, {padding, padding}, {1, 1}};
      ++seen->emplace(call.name(), std::move(call)).first->second.count;
    }
    return nullptr;
  }
  Convolution call{inputs[0].toTensor().detach(), inputs[1].toTensor().detach(), inputs[3].toIntVector(),
                   inputs[4].toIntVector(),       inputs[5].toIntVector(),       inputs[8].toInt()};
  ++seen->emplace(call.name(), std::move(call)).first->second.count;
  return nullptr;
}

/// The convolutions of one forward pass, with the tensors they were given.
Convolutions convolutions_of(models::DetectionModel& model, const Batch& batch) {
  Convolutions result;
  seen = &result;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(note, leave).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  const at::NoGradGuard no_gradients;
  model.predict(model.preprocess(batch));
  at::removeCallback(handle);
  seen = nullptr;
  return result;
}

/// The best rate so far, and whose it is.
struct Best {
  double rate = 0;
  std::string what;
  void offer(double other, const std::string& name) {
    if (other > rate) rate = other, what = name;
  }
  nlohmann::json json() const { return {{"gflops", rate * 1e-9}, {"what", what}}; }
};

/// What all convolutions of one direction take.
struct Direction {
  double seconds = 0, operations = 0;
  nlohmann::json json() const {
    return {{"seconds", seconds}, {"gflop", operations * 1e-9}, {"gflops", operations / seconds * 1e-9}};
  }
};

void time_convolutions(const ModelFlags& flags, int64_t calls) {
  const config::Pipeline pipeline = config::load_pipeline(flags.pipeline_config, flags.overrides);
  const auto model = models::build_model(pipeline.root());
  model->to(at::Device(flags.device));
  train::to_channels_last(*model);
  model->train();
  Convolutions convolutions =
      convolutions_of(*model, constant_batch(*model, flags.batch_size, at::Device(flags.device)));
  const at::NoGradGuard no_gradients;
  std::map<std::string, Direction> directions;
  Best peak, best;
  std::vector<std::pair<double, nlohmann::json>> slow;
  for (const auto& [name, seen_convolution] : convolutions) {
    Convolution convolution = seen_convolution.padded();
    const at::Tensor own_weights = convolution.weights;  // our operators take them as floats in any precision
    convolution.x = convolution.x.to(flags.map_type());
    convolution.weights = convolution.weights.to(flags.map_type());
    const at::Tensor y = convolution.forward();
    const at::Tensor gradient = at::rand_like(y);
    const double operations =
        2.0 * static_cast<double>(y.numel() * convolution.weights.numel() / convolution.weights.size(0));
    const auto measure = [&](const char* direction, auto call) {
      const auto to_its_end = [&] {
        call();
        flags.wait();
      };
      to_its_end();
      const double seconds = best_of(calls, to_its_end), rate = operations / seconds;
      const auto count = static_cast<double>(convolution.count);
      directions[direction].seconds += seconds * count;
      directions[direction].operations += operations * count;
      const bool all_products = !std::string_view(direction).ends_with("by tiles");
      if (all_products) peak.offer(rate, name + ", " + direction);
      best.offer(rate, name + ", " + direction);
      slow.emplace_back(seconds * count, nlohmann::json{{"what", name + ", " + direction},
                                                        {"count", convolution.count},
                                                        {"seconds", seconds},
                                                        {"gflops", rate * 1e-9}});
    };
    measure("forward", [&] { convolution.forward(); });
    measure("gradient of x", [&] { convolution.backward(gradient, true, false); });
    measure("gradient of weights", [&] { convolution.backward(gradient, false, true); });
    if (convolution.depthwise) {
      const at::Tensor x = seen_convolution.x.to(flags.map_type());
      const auto& window = *seen_convolution.depthwise;
      measure("forward, by loops", [&] { kernels::depthwise_convolution(x, own_weights, window); });
      measure("both gradients, by loops",
              [&] { kernels::depthwise_convolution_backward(gradient, x, own_weights, window); });
    }
    const bool in_tiles = convolution.groups == 1 && convolution.dilation[0] == 1 && convolution.in_tiles(own_weights);
    if (in_tiles) {
      measure("forward, by tiles", [&] { kernels::sliding_convolution(convolution.x, own_weights); });
      measure("gradient of x, by tiles", [&] { kernels::sliding_convolution_gradient(gradient, own_weights); });
    }
    if (convolution.x.is_cpu() && convolution.groups == 1 && convolution.dilation[0] == 1)
      measure(in_tiles ? "gradient of weights, by tiles" : "gradient of weights, by products",
              [&] { kernels::convolution_weight_gradient(gradient, convolution.x, convolution.window()); });
    if (convolution.pointwise() && kernels::takes_pointwise(convolution.x, own_weights)) {
      measure("forward, by panels", [&] { kernels::pointwise_convolution(convolution.x, own_weights); });
      measure("gradient of x, by panels", [&] { kernels::pointwise_convolution_gradient(gradient, own_weights); });
    }
  }
  std::stable_sort(slow.begin(), slow.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  nlohmann::json result = {{"config", std::filesystem::path(flags.pipeline_config).stem().string()},
                           {"batch_size", flags.batch_size},
                           {"precision", flags.precision},
                           {"device", flags.device},
                           {"threads", at::get_num_threads()},
                           {"peak", peak.json()},
                           {"best", best.json()}};
  for (const auto& [name, direction] : directions) result["directions"][name] = direction.json();
  for (const auto& entry : slow) result["convolutions"].push_back(entry.second);
  std::cout << result.dump(1) << std::endl;
}

}  // namespace
}  // namespace osprey

int main(int argc, char** argv) {
  CLI::App app{"Times the convolutions of a network."};
  osprey::ModelFlags flags(app, 2);
  int64_t calls = 3;
  app.add_option("--calls", calls)->check(osprey::cli::at_least(1));
  return osprey::cli::run(app, "convolution_bench --pipeline_config pipeline.config", argc, argv,
                          [&] { osprey::time_convolutions(flags, calls); });
}
