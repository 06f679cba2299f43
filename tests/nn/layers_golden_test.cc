// Convolutions, pooling, batch norm and activations against TensorFlow's kernels.
#include <gtest/gtest.h>

#include "osprey/nn/convolution.h"
#include "osprey/nn/name_map.h"
#include "support/golden.h"

namespace osprey {
namespace {

using namespace osprey::testing;
using nn::Padding;

/// The cases of one kind; the bundled file holds a selection of kinds.
nlohmann::json cases(const std::filesystem::path& file, const char* kind) {
  const nlohmann::json all = read_json(file);
  const bool whole = !file.string().starts_with(bundled_data().string());
  EXPECT_TRUE(all.contains(kind) || !whole) << kind;
  return all.value(kind, nlohmann::json::array());
}

at::Tensor nchw(const nlohmann::json& nhwc) {
  return tensor(nhwc).permute({0, 3, 1, 2}).contiguous(at::MemoryFormat::ChannelsLast);
}
at::Tensor nhwc(const at::Tensor& nchw) { return nchw.permute({0, 2, 3, 1}); }

TEST(Convolution, AgreesWithTensorFlow) {
  for (const auto& file : golden_files("tf_primitives.json")) {
    for (const auto& item : cases(file, "conv")) {
      const at::Tensor x = nchw(item.at("x")), kernel = tensor(item.at("kernel_hwio")),
                       depthwise = tensor(item.at("depthwise"));
      const at::Tensor weights = nn::from_tf_layout("weights", kernel);
      const at::Tensor depth_weights =
          nn::from_tf_layout("depthwise_weights", depthwise)
              .reshape({depthwise.size(2) * depthwise.size(3), 1, depthwise.size(0), depthwise.size(1)});
      int checked = 0;
      for (const auto& [key, expected] : item.items()) {
        if (!key.starts_with("conv_") && !key.starts_with("depthwise_")) continue;
        nn::ConvolutionOptions options{.kernel = {kernel.size(0), kernel.size(1)}, .stride = item.at("stride")};
        if (key.ends_with("VALID")) {
          options.padding = Padding::kValid;
        } else {
          ASSERT_TRUE(key.ends_with("SAME")) << key;
        }
        if (key.starts_with("depthwise")) options.groups = x.size(1);
        const at::Tensor y = nn::convolve(x, key.starts_with("conv") ? weights : depth_weights, {}, options);
        expect_close(nhwc(y), tensor(expected), 1e-5, 1e-5, key);
        ++checked;
      }
      EXPECT_GE(checked, 2);
    }
  }
}

TEST(Pooling, AgreesWithTensorFlow) {
  for (const auto& file : golden_files("tf_primitives.json")) {
    for (const auto& item : cases(file, "pool")) {
      const at::Tensor x = nchw(item.at("x"));
      for (const auto& [key, expected] : item.items()) {
        if (key == "x" || key == "k" || key == "stride") continue;
        const Padding padding = key.find("VALID") != std::string::npos ? Padding::kValid : Padding::kSame;
        ASSERT_TRUE(key.starts_with("max_") || key.starts_with("avg_")) << key;
        const at::Tensor y = key.starts_with("max_") ? nn::max_pool(x, item.at("k"), item.at("stride"), padding)
                                                     : nn::average_pool(x, item.at("k"), item.at("stride"), padding);
        expect_close(nhwc(y), tensor(expected), 1e-5, 1e-6, key);
      }
    }
  }
}

TEST(BatchNorm, TrainsAsTensorFlow) {
  for (const auto& file : golden_files("tf_primitives.json")) {
    for (const auto& item : cases(file, "fused_batch_norm_training")) {
      const at::Tensor x = nchw(item.at("x"));
      nn::BatchNorm layer(x.size(1), {.decay = 0, .epsilon = item.at("epsilon"), .scale = true});
      at::NoGradGuard no_grad;
      layer.named_parameters()["gamma"].copy_(tensor(item.at("gamma")));
      layer.named_parameters()["beta"].copy_(tensor(item.at("beta")));
      expect_close(nhwc(layer.forward(x)), tensor(item.at("y")), 1e-4, 1e-5, "y");
      expect_close(nhwc(layer.forward(x, nn::Activation::kRelu6)), tensor(item.at("y")).clamp(0, 6), 1e-4, 1e-5,
                   "relu6(y)");
      nn::BatchNorm::commit({&layer});  // a decay of 0 makes the averages those of the batch
      expect_close(layer.named_buffers()["moving_mean"], tensor(item.at("batch_mean")), 1e-5, 1e-6, "mean");
      expect_close(layer.named_buffers()["moving_variance"],
                   tensor(item.at("variance_used_for_moving_average(unbiased)")), 1e-4, 1e-6, "variance");
    }
  }
}

TEST(Activation, AgreesWithTensorFlow) {
  const std::map<std::string, nn::Activation> known = {{"relu6", nn::Activation::kRelu6},
                                                       {"swish", nn::Activation::kSwish},
                                                       {"hard_swish_relu6(x+3)*x/6", nn::Activation::kHardSwish},
                                                       {"sigmoid", nn::Activation::kSigmoid}};
  for (const auto& file : golden_files("tf_primitives.json")) {
    const nlohmann::json item = cases(file, "activations");
    if (item.empty()) continue;
    for (const auto& [key, expected] : item.items()) {
      if (key == "x") continue;
      ASSERT_EQ(known.count(key), 1u) << key;
      expect_close(nn::activate(tensor(item.at("x")), known.at(key)), tensor(expected), 1e-5, 1e-6, key);
    }
  }
}

}  // namespace
}  // namespace osprey
