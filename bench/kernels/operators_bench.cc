// Every operator of the library at the size a detector has it, on the CPU or on a GPU (Google Benchmark).
// usage: operators_bench [--device=cuda] [--benchmark_filter=REGEX] [--benchmark_format=json]
// `bytes_per_second` counts what has to be read and written at least; `of_copy` is its ratio to the rate of a plain
// copy. On a GPU batches are larger, so that maps do not stay in its cache, and eight calls in a row are timed on it;
// the CPU starts them while eight copies run, so that its time does not count unless it takes longer than those.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <benchmark/benchmark.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <limits>

#include "osprey/boxes/non_max_suppression.h"
#include "osprey/kernels/assign_targets.h"
#include "osprey/kernels/batch_norm_activation.h"
#include "osprey/kernels/box_codes.h"
#include "osprey/kernels/box_loss.h"
#include "osprey/kernels/class_loss.h"
#include "osprey/kernels/convolution_gradient.h"
#include "osprey/kernels/depthwise_convolution.h"
#include "osprey/kernels/fold_pixels.h"
#include "osprey/kernels/match_anchors.h"
#include "osprey/kernels/max_pool.h"
#include "osprey/kernels/normalized_convolution.h"
#include "osprey/kernels/parameter_update.h"
#include "osprey/kernels/pointwise_convolution.h"
#include "osprey/kernels/preprocess.h"
#include "osprey/kernels/rounded_map.h"
#include "osprey/kernels/sliding_convolution.h"
#include "osprey/kernels/squeeze_excite.h"
#include "osprey/kernels/summed_convolution.h"

namespace {

using namespace osprey;

constexpr int64_t kAnchors = 51150, kBoxes = 100, kClasses = 90;
at::Device device = at::kCPU;
int64_t images = 8;

at::TensorOptions floats() { return at::TensorOptions(device).dtype(at::kFloat); }
at::TensorOptions integers() { return floats().dtype(at::kLong); }
at::TensorOptions flags() { return floats().dtype(at::kBool); }

at::Tensor random_boxes(std::vector<int64_t> shape) {
  shape.push_back(2);
  const at::Tensor center = at::rand(shape, floats()), half = at::rand(shape, floats()) * 0.15;
  return at::cat({center - half, center + half}, -1);
}

at::Tensor channels_last(at::Tensor map) { return map.contiguous(at::MemoryFormat::ChannelsLast); }

/// Seconds that a GPU takes for each of some calls in a row.
double seconds_on_gpu(const std::function<void()>& call) {
  constexpr int kCalls = 8;
  static const at::Tensor from = at::ones({64 << 20}, floats()), to = at::empty_like(from);
  const c10::Stream stream = c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  c10::Event begun(device.type(), c10::EventFlag::BACKEND_DEFAULT),
      ended(device.type(), c10::EventFlag::BACKEND_DEFAULT);
  for (int i = 0; i < kCalls; ++i) to.copy_(from);  // meanwhile the CPU starts the first calls
  begun.record(stream);
  for (int i = 0; i < kCalls; ++i) call();
  ended.record(stream);
  ended.synchronize();
  return begun.elapsedTime(ended) * 1e-3 / kCalls;
}

double seconds_on_cpu(const std::function<void()>& call) {
  const auto started = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}

double seconds_of(const std::function<void()>& call) {
  return device.is_cpu() ? seconds_on_cpu(call) : seconds_on_gpu(call);
}

/// The rate of a copy of a quarter of a GiB, read and written.
double rate_of_a_copy() {
  static double rate = 0;
  if (rate > 0) return rate;
  const at::Tensor from = at::ones({64 << 20}, floats()), to = at::zeros_like(from);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i) best = std::min(best, seconds_of([&] { to.copy_(from); }));
  return rate = 2 * static_cast<double>(from.nbytes()) / best;
}

std::vector<std::string> names;  ///< of what is timed

/// A call of an operator that has no function of its own.
std::function<void()> boxed(const std::string& name, const torch::jit::Stack& arguments) {
  const auto operation = c10::Dispatcher::singleton().findSchemaOrThrow(("osprey::" + name).c_str(), "");
  return [=] {
    torch::jit::Stack stack = arguments;
    operation.callBoxed(&stack);
  };
}

/// Times a call that has to move so many bytes at least.
/// name  of the operator, and what distinguishes this call of it behind a slash
void add(const std::string& name, std::function<std::function<void()>()> prepare, double bytes) {
  names.push_back(name);
  benchmark::RegisterBenchmark(
      name.c_str(),
      [=](benchmark::State& state) {
        const c10::OptionalDeviceGuard guard(device.is_cpu() ? std::nullopt : std::optional(device));
        const at::NoGradGuard no_gradients;
        const std::function<void()> call = prepare();
        call();
        double seconds = 0;
        for (auto _ : state) {
          const double taken = seconds_of(call);
          state.SetIterationTime(taken);
          seconds += taken;
        }
        const double moved = bytes * static_cast<double>(state.iterations());
        state.SetBytesProcessed(static_cast<int64_t>(moved));
        state.counters["of_copy"] = moved / seconds / rate_of_a_copy();
      })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

ClassTargets some_class_targets() {
  return {at::rand({images, kBoxes + 2, kClasses}, floats()), at::ones({images, kBoxes + 2, 1}, floats()),
          at::randint(0, kBoxes + 2, {images, kAnchors}, integers())};
}

void add_class_losses(const std::string& type_name, at::ScalarType type) {
  const double logits = static_cast<double>(images) * kAnchors * kClasses * static_cast<double>(c10::elementSize(type));
  const auto inputs = [=] {
    return std::pair(at::randn({images, kAnchors, kClasses}, floats()).to(type), some_class_targets());
  };
  for (const auto& [name, form] : {std::pair{"sigmoid_focal_loss/", kernels::SigmoidFocalOptions{2, 0.25}},
                                   {"sigmoid_focal_loss/gamma_0/", kernels::SigmoidFocalOptions{0, std::nullopt}}})
    add(
        name + type_name,
        [=, form = form] {
          return [=, in = inputs()] { kernels::sigmoid_focal(in.first, in.second, form, /*with_slope=*/true); };
        },
        2 * logits);
  add(
      "softmax_cross_entropy_loss/" + type_name,
      [=] { return [in = inputs()] { kernels::softmax_cross_entropy(in.first, in.second, 1, /*with_slope=*/true); }; },
      2 * logits);
  const bool in_floats = type == at::kHalf;  // as slopes of float16 predictions are
  const auto slopes = [=] {
    return at::randn({images, kAnchors, kClasses}, floats()).to(in_floats ? at::kFloat : type);
  };
  const auto of_loss = [] { return at::ones({images, kAnchors}, floats()); };
  add(
      "scale_slopes/" + type_name,
      [=] {
        return boxed("scale_slopes", {slopes(), of_loss(), type});
      },
      in_floats ? 3 * logits : 2 * logits);
  if (!in_floats)
    add(
        "scale_slopes_/" + type_name,
        [=] {
          return boxed("scale_slopes_", {slopes(), of_loss()});
        },
        2 * logits);
}

void add_batch_norm(const std::string& type_name, at::ScalarType type) {
  const double map = 64.0 * 150 * 150 * static_cast<double>(images) * static_cast<double>(c10::elementSize(type));
  const auto inputs = [=] { return channels_last(at::randn({images, 64, 150, 150}, floats())).to(type); };
  for (const auto& [name, epilogue] : {std::pair{"/relu6/", kernels::Epilogue{.low = 0, .high = 6}},
                                       {"/swish/", kernels::Epilogue{.curve = kernels::Epilogue::Curve::kSwish}}}) {
    add(
        std::string("batch_norm_activation") + name + type_name,
        [=, epilogue = epilogue] {
          return [=, x = inputs()] { kernels::batch_norm_activation(x, {}, {}, 1e-3, epilogue); };
        },
        3 * map);
    add(
        std::string("batch_norm_activation_backward") + name + type_name,
        [=, epilogue = epilogue] {
          const at::Tensor x = inputs(), gradient = inputs();
          const kernels::BatchNormed normed = kernels::batch_norm_activation(x, {}, {}, 1e-3, epilogue);
          return [=] { kernels::batch_norm_activation_backward(gradient, x, {}, {}, normed, epilogue); };
        },
        5 * map);
  }
  const kernels::Epilogue relu{.low = 0};
  add(
      "batch_norm_activation/addend/" + type_name,
      [=] {
        return [=, x = inputs(), y = inputs()] { kernels::batch_norm_activation(x, {}, {}, 1e-3, relu, nullptr, y); };
      },
      4 * map);
  add(
      "batch_norm_activation_backward/addend/" + type_name,
      [=] {
        const at::Tensor x = inputs(), gradient = inputs();
        const kernels::BatchNormed normed = kernels::batch_norm_activation(x, {}, {}, 1e-3, relu, nullptr, inputs());
        return [=] { kernels::batch_norm_activation_backward(gradient, x, {}, {}, normed, relu, normed.y); };
      },
      7 * map);
}

/// Beside libtorch's convolutions with as many groups as channels.
void add_depthwise(const std::string& type_name, at::ScalarType type) {
  const double map = 128.0 * 75 * 75 * static_cast<double>(images) * static_cast<double>(c10::elementSize(type));
  const auto maps = [=] { return channels_last(at::randn({images, 128, 75, 75}, floats())).to(type); };
  const auto taps = [] { return at::randn({128, 1, 3, 3}, floats()); };
  const kernels::SlidingWindow window{1, {1, 1, 1, 1}};
  add(
      "depthwise_convolution/" + type_name,
      [=] { return [=, x = maps(), weights = taps()] { kernels::depthwise_convolution(x, weights, window); }; },
      2 * map);
  add(
      "depthwise_convolution/libtorch/" + type_name,
      [=] {
        return [=, x = maps(), weights = taps().to(type)] { at::conv2d(x, weights, {}, 1, 1, 1, /*groups=*/128); };
      },
      2 * map);
  add(
      "depthwise_convolution_backward/" + type_name,
      [=] {
        return [=, gradient = maps(), x = maps(), weights = taps()] {
          kernels::depthwise_convolution_backward(gradient, x, weights, window);
        };
      },
      3 * map);
  add(
      "depthwise_convolution_backward/libtorch/" + type_name,
      [=] {
        return [=, gradient = maps(), x = maps(), weights = taps().to(type)] {
          at::convolution_backward(gradient, x, weights, at::OptionalIntArrayRef(), {1, 1}, {1, 1}, {1, 1},
                                   /*transposed=*/false, {0, 0}, /*groups=*/128, {true, true, false});
        };
      },
      3 * map);
}

/// As many numbers, in as many tensors, as a ResNet-50 with a pyramid has.
std::vector<at::Tensor> parameters() {
  std::vector<at::Tensor> all;
  for (int i = 0; i < 160; ++i) all.push_back(at::randn({i % 4 == 0 ? 590000 + i : 73000 + i}, floats()));
  return all;
}

void add_updates() {
  double count = 0;
  for (int i = 0; i < 160; ++i) count += i % 4 == 0 ? 590000 + i : 73000 + i;
  const auto update = [](kernels::UpdateRule rule, size_t slots, std::vector<float> numbers) {
    return [=] {
      std::vector<std::vector<at::Tensor>> kept;
      for (size_t s = 0; s < slots; ++s) kept.push_back(parameters());
      return [=, values = parameters(), gradients = parameters(), rate = at::tensor(numbers).to(device)] {
        kernels::update_parameters(rule, {values, gradients, kept}, rate);
      };
    };
  };
  add("update_parameters/momentum", update(kernels::UpdateRule::kMomentum, 1, {0.9f, 1, -1e-6f}), 5 * 4 * count);
  add("update_parameters/rms_prop", update(kernels::UpdateRule::kRmsProp, 2, {0.9f, 0.9f, 1e-6f, 1}), 7 * 4 * count);
  add("update_parameters/rms_prop_epsilon_outside",
      update(kernels::UpdateRule::kRmsPropEpsilonOutside, 2, {0.9f, 0.9f, 1e-6f, 1}), 7 * 4 * count);
  add("update_parameters/adam", update(kernels::UpdateRule::kAdam, 2, {0.9f, 0.99f, 1e-6f, 1}), 7 * 4 * count);
  add("update_parameters/average", update(kernels::UpdateRule::kAverage, 0, {1e-3f}), 3 * 4 * count);
  add(
      "finish_gradients",
      [] {
        return [gradients = parameters(), all = parameters(),
                penalties = at::tensor({0.0f, 1e-5f}).repeat({160, 1}).to(device),
                one = at::ones({}, floats())] { kernels::finish_gradients(gradients, all, penalties, one); };
      },
      3 * 4 * count);
  add(
      "tensor_norms", [] { return [all = parameters()] { kernels::tensor_norms(all); }; }, 4 * count);
  add(
      "scale_tensors",
      [] { return [all = parameters(), one = at::ones({160}, floats())] { kernels::scale_tensors(all, one); }; },
      2 * 4 * count);
}

void add_boxes() {
  const double anchors = static_cast<double>(images) * kAnchors;
  add(
      "match_anchors",
      [] {
        const at::Tensor all = at::ones({images, kBoxes}, flags());
        return [=, boxes = random_boxes({images, kBoxes}), priors = random_boxes({kAnchors})] {
          kernels::match_anchors(boxes, all, all, priors, {.force_match_for_each_row = true});
        };
      },
      8 * anchors);
  add(
      "assign_targets",
      [] {
        const kernels::LabeledBoxes truth{random_boxes({images, kBoxes}),
                                          at::rand({images, kBoxes, kClasses}, floats()),
                                          at::rand({images, kBoxes}, floats())};
        return [=, priors = random_boxes({kAnchors}), match = at::randint(-1, kBoxes, {images, kAnchors}, integers())] {
          const kernels::CodeScales scales;
          kernels::assign_targets(truth, match, priors, &scales, {});
        };
      },
      (8 + 8 + 16 + 4) * anchors);
  const auto codes = [] { return at::randn({images, kAnchors, 4}, floats()); };
  add(
      "decode_boxes",
      [=] { return [x = codes(), priors = random_boxes({kAnchors})] { kernels::decode_boxes(x, priors, {}); }; },
      (16 + 16) * anchors);
  add(
      "decode_boxes_backward",
      [=] {
        return boxed("decode_boxes_backward",
                     {codes(), codes(), random_boxes({kAnchors}), std::vector<double>{10, 10, 5, 5}});
      },
      (16 + 16 + 16 + 16) * anchors);
  // With their slopes, as a step has them.
  add(
      "smooth_l1_loss",
      [=] {
        return [x = codes().requires_grad_(), t = codes(), w = at::rand({images, kAnchors}, floats())] {
          const at::AutoGradMode gradients(true);
          kernels::smooth_l1_loss(x, t, w, 1);
        };
      },
      (16 + 16 + 16 + 8) * anchors);
  add(
      "encoded_smooth_l1_loss",
      [=] {
        const kernels::MatchedBoxes truth{random_boxes({images, kBoxes}),
                                          at::randint(-1, kBoxes, {images, kAnchors}, integers()),
                                          random_boxes({kAnchors}),
                                          {}};
        return [=, x = codes().requires_grad_(), w = at::rand({images, kAnchors}, floats())] {
          const at::AutoGradMode gradients(true);
          kernels::encoded_smooth_l1_loss(x, truth, w, 1);
        };
      },
      (16 + 8 + 16 + 8) * anchors);
  add(
      "giou_loss",
      [=] {
        return [x = random_boxes({images, kAnchors}).requires_grad_(), t = random_boxes({images, kAnchors}),
                w = at::rand({images, kAnchors}, floats())] {
          const at::AutoGradMode gradients(true);
          kernels::giou_loss(x, t, w);
        };
      },
      (16 + 16 + 16 + 8) * anchors);
  for (const auto& [name, options] :
       {std::pair{"", boxes::NmsOptions{.score_threshold = 0.98f}},
        {"/soft", boxes::NmsOptions{.score_threshold = 0.98f, .soft_nms_sigma = 0.5f}},
        {"/class_agnostic", boxes::NmsOptions{.score_threshold = 0.98f, .class_agnostic = true}}})
    add(
        std::string("batch_non_max_suppression") + name,
        [options = options] {
          return [=, boxes = random_boxes({1, kAnchors}), scores = at::rand({1, kAnchors, kClasses}, floats()),
                  window = at::tensor({0.0f, 0.0f, 1.0f, 1.0f}).to(device)] {
            boxes::batch_non_max_suppression(boxes, scores, options, window);
          };
        },
        4.0 * kAnchors * kClasses);
  add(
      "batch_non_max_suppression/codes",
      [] {
        return [x = at::randn({1, kAnchors, 4}, floats()), coding = boxes::BoxCoding{random_boxes({kAnchors}), {}},
                scores = at::rand({1, kAnchors, kClasses}, floats()),
                window = at::tensor({0.0f, 0.0f, 1.0f, 1.0f}).to(device)] {
          boxes::batch_non_max_suppression(x, scores, {.score_threshold = 0.98f}, window, {}, &coding);
        };
      },
      4.0 * kAnchors * kClasses);
}

void add_maps() {
  const double pixels = 3.0 * static_cast<double>(images), values = 128.0 * 75 * 75 * static_cast<double>(images);
  for (const auto& [name, type] : {std::pair{"float32", at::kFloat}, {"bfloat16", at::kBFloat16}})
    add(
        std::string("preprocess/") + name,
        [type = type] {
          return [=, pictures = channels_last(at::randint(0, 256, {images, 3, 640, 640}, floats()).to(at::kByte)),
                  shapes = at::full({images, 2}, 600, integers())] {
            kernels::preprocess(pictures, shapes, {.scale = {0.1, 0.1, 0.1}, .type = type});
          };
        },
        640 * 640 * pixels * (1 + static_cast<double>(c10::elementSize(type))));
  add(
      "preprocess/resized",
      [] {
        return [pictures = channels_last(at::randint(0, 256, {images, 3, 640, 640}, floats()).to(at::kByte)),
                sources = at::full({images, 2}, 640, integers())] {
          kernels::preprocess(pictures, {}, {.scale = {0.1, 0.1, 0.1}}, {sources, 300, 300});
        };
      },
      (640 * 640 + 4 * 300 * 300) * pixels);
  add(
      "fold_pixels",
      [] {
        return [pictures = channels_last(at::randn({images, 3, 640, 640}, floats()).to(at::kBFloat16))] {
          kernels::fold_pixels(pictures, {2, 2}, {323, 323});
        };
      },
      (2 * 640 * 640 + 2 * 16.0 / 3 * 323 * 323) * pixels);
  const auto of_pool = [](int64_t side) {
    return channels_last(at::randn({images, 64, side, side}, floats()).to(at::kBFloat16));
  };
  const double pooled = 64.0 * 160 * 160 * static_cast<double>(images);
  add(
      "max_pool", [=] { return [x = of_pool(320)] {
                          kernels::max_pool(x, 3, {2, {0, 1, 0, 1}});
                        }; },
      (2 * 4 + 2 + 1) * pooled);
  add(
      "max_pool_backward",
      [=] {
        return boxed("max_pool_backward",
                     {of_pool(160), channels_last(at::randint(0, 9, {images, 64, 160, 160}, integers()).to(at::kByte)),
                      std::vector<int64_t>{320, 320}, int64_t{3}, int64_t{2}, std::vector<int64_t>{0, 1, 0, 1}});
      },
      (2 * 4 + 2 + 1) * pooled);
  add_depthwise("float32", at::kFloat);
  add_depthwise("bfloat16", at::kBFloat16);
  add(
      "pointwise_convolution",
      [] {
        return [x = channels_last(at::randn({images, 128, 75, 75}, floats())),
                weights = at::randn({128, 128, 1, 1}, floats())] { kernels::pointwise_convolution(x, weights); };
      },
      2 * 4 * values);
  add(
      "sliding_convolution",
      [] {
        return [x = channels_last(at::randn({images, 128, 75, 75}, floats())),
                weights = at::randn({128, 128, 3, 3}, floats())] { kernels::sliding_convolution(x, weights); };
      },
      2 * 4 * values);
  if (device.is_cpu())
    add(
        "packed_winograd_convolution",
        [] {
          const at::Tensor x = channels_last(at::randn({images, 128, 75, 75}, floats()));
          return [x, packed = kernels::packed_for_winograd(x, at::randn({128, 128, 3, 3}, floats())),
                  biases = at::zeros({128}, floats())] {
            kernels::packed_winograd_convolution(x, packed, biases, {.low = 0});
          };
        },
        2 * 4 * values);
  const auto pending = [] {
    const auto channel = [] { return at::rand({128}, floats()) + 0.5; };
    return kernels::PendingMap{channels_last(at::randn({images, 128, 75, 75}, floats())),
                               channel(),
                               channel(),
                               channel(),
                               channel(),
                               {.low = 0, .high = 6}};
  };
  for (const auto& [name, sizes] : {std::pair{"pointwise", std::vector<int64_t>{128, 128, 1, 1}},
                                    {"depthwise", {128, 1, 3, 3}},
                                    {"windows", {128, 128, 3, 3}},
                                    {"sliding", {128, 128, 3, 3}}}) {
    kernels::SlidingWindow window;
    if (sizes[2] > 1) window.padding = {1, 1, 1, 1};
    if (name == std::string("windows")) window.stride = 2;
    const auto weights = [sizes = sizes] { return at::randn(sizes, floats()); };
    add(
        std::string("normalized_convolution/") + name,
        [=] { return [=, map = pending(), w = weights()] { kernels::normalized_convolution(map, w, window, 1e-3); }; },
        2 * 4 * values);
    add(
        std::string("normalized_convolution_backward/") + name,
        [=] {
          const auto map = pending();
          const at::Tensor w = weights();
          const auto result = kernels::normalized_convolution(map, w, window, 1e-3);
          return [=] { kernels::normalized_convolution_backward(result, result, map, w, window); };
        },
        4 * 4 * values);
  }
  add(
      "pending_values", [=] { return [map = pending()] { kernels::pending_values(map); }; }, 2 * 4 * values);
  const auto of_two_passes = (floats().device().is_cpu() ? 3 : 5) * 4 * values;  // which a CPU makes in one
  add(
      "pending_values_backward",
      [=] {
        return [map = pending(), gradient = channels_last(at::randn({images, 128, 75, 75}, floats()))] {
          kernels::pending_values_backward(gradient, map);
        };
      },
      of_two_passes);
  const auto grid_of = [] { return kernels::RoundingGrid{.range = at::arange(-1, 5, 5, floats())}; };
  add(
      "value_range", [=] { return [map = pending()] { kernels::value_range(map); }; }, 4 * values);
  add(
      "rounded_values", [=] { return [map = pending(), grid = grid_of()] { kernels::rounded_values(map, grid); }; },
      2 * 4 * values);
  add(
      "rounded_values_backward",
      [=] {
        return
            [map = pending(), grid = grid_of(), gradient = channels_last(at::randn({images, 128, 75, 75}, floats()))] {
              kernels::rounded_values_backward(gradient, map, grid);
            };
      },
      of_two_passes);
  const auto of_pictures = [] { return at::rand({images, 128}, floats()); };
  add(
      "squeeze", [=] { return [map = pending()] { kernels::squeeze(map); }; }, 4 * values);
  add(
      "squeeze_backward",
      [=] {
        const auto map = pending();
        return boxed("squeeze_backward", {channels_last(at::randn_like(map.x)), of_pictures(), map.x, map.mean,
                                          map.inverse_deviation, map.gamma, map.beta, 0.0, 6.0, int64_t{0}});
      },
      3 * 4 * values);
  add(
      "excite", [=] { return [map = pending(), gates = of_pictures()] { kernels::excite(map, gates); }; },
      2 * 4 * values);
  add(
      "excite_backward",
      [=] {
        const auto map = pending();
        return boxed("excite_backward", {channels_last(at::randn_like(map.x)), map.x, map.mean, map.inverse_deviation,
                                         map.gamma, map.beta, 0.0, 6.0, int64_t{0}, of_pictures()});
      },
      3 * 4 * values);
  const auto of_sum = [] { return channels_last(at::randn({images, 128, 75, 75}, floats())); };
  add(
      "pending_sum", [=] { return [map = pending(), addend = of_sum()] { kernels::pending_sum(map, addend); }; },
      3 * 4 * values);
  const auto next = [=] { return at::randn({32, 128, 1, 1}, floats()); };
  const double of_next = 4 * values / 4;  // bytes of a map that it makes
  add(
      "summed_convolution",
      [=] {
        return [map = pending(), addend = of_sum(), weights = next()] {
          kernels::summed_convolution(map, addend, weights, 1e-3);
        };
      },
      3 * 4 * values + of_next);
  add(
      "summed_convolution_backward",
      [=] {
        const auto map = pending();
        const auto weights = next();
        const auto made = kernels::summed_convolution(map, of_sum(), weights, 1e-3);
        return [=, gradient = kernels::SummedConvolution{of_sum(), {at::randn_like(made.made.y), {}, {}}}] {
          kernels::summed_convolution_backward(gradient, made, map, weights);
        };
      },
      4 * 4 * values + 2 * of_next);
  add(
      "pending_sum_backward",
      [=] {
        return [map = pending(), sum = of_sum(), gradient = of_sum()] {
          kernels::pending_sum_backward(gradient, sum, map);
        };
      },
      4 * 4 * values);
  add(
      "convolution_weight_gradient",
      [] {
        return [x = channels_last(at::randn({images / 4, 256, 80, 80}, floats())),
                gradient = channels_last(at::randn({images / 4, 256, 80, 80}, floats()))] {
          kernels::convolution_weight_gradient(gradient, x, {.kernel = {3, 3}, .padding = {1, 1}});
        };
      },
      2 * 4.0 * 256 * 80 * 80 * static_cast<double>(images / 4));
  add(
      "convolution_bias_gradient",
      [] {
        return [gradient = channels_last(at::randn({images / 4, 256, 80, 80}, floats()))] {
          kernels::convolution_bias_gradient(gradient);
        };
      },
      4.0 * 256 * 80 * 80 * static_cast<double>(images / 4));
  add(
      "copy",
      [] { return [from = at::randn({64 << 20}, floats()), to = at::empty({64 << 20}, floats())] { to.copy_(from); }; },
      2 * 4.0 * (64 << 20));
}

/// The operators for this device that nothing times.
std::vector<std::string> missing() {
  std::vector<std::string> result;
  const auto key = device.is_cpu() ? c10::DispatchKey::CPU : c10::DispatchKey::CUDA;
  for (const c10::OperatorName& operation : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!operation.name.starts_with("osprey::")) continue;
    const std::string name = operation.name.substr(8);
    const auto is_it = [&](const std::string& timed) { return timed.substr(0, timed.find('/')) == name; };
    if (c10::Dispatcher::singleton().findSchemaOrThrow(operation.name.c_str(), "").hasKernelForDispatchKey(key) &&
        std::ranges::none_of(names, is_it))
      result.push_back(name);
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--device=", 9) != 0) continue;
    device = at::Device(argv[i] + 9);
    if (device.is_cuda() && !device.has_index()) device.set_index(0);
    if (device.is_cuda()) images = 64;
    std::rotate(argv + i, argv + i + 1, argv + argc--);
    break;
  }
  add_class_losses("float32", at::kFloat);
  add_class_losses("bfloat16", at::kBFloat16);
  add_class_losses("float16", at::kHalf);
  add_batch_norm("float32", at::kFloat);
  add_batch_norm("bfloat16", at::kBFloat16);
  add_updates();
  add_boxes();
  add_maps();
  for (const std::string& name : missing()) std::cerr << "operators_bench: nothing times osprey::" << name << '\n';
  if (!missing().empty()) return 1;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
