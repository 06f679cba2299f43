#include "nn/necks/mnasfpn.h"

#include <fmt/format.h>

#include "nn/backbones/make_divisible.h"
#include "osprey/base/error.h"
#include "osprey/nn/separable_convolution.h"

namespace osprey::nn {
namespace {

/// A block of the cell: the sum of two maps, by their places in the list of the cell's inputs and earlier blocks.
struct Block {
  std::array<size_t, 2> inputs;
  int64_t level, kernel, expansion;
};
constexpr Block kCell[] = {
    {{1, 2}, 4, 3, 256}, {{0, 4}, 3, 3, 128}, {{5, 4}, 4, 3, 128}, {{4, 3}, 5, 5, 128}, {{4, 3}, 6, 3, 96}};
constexpr int64_t kCells = 4, kMinLevel = 3, kLevels = 4;

const Initializer kDepthwiseInitializer = Initializer::truncated_normal(0, 0.536);  // He's for kernels of 3x3

class Mnasfpn final : public Neck {
 public:
  Mnasfpn(const MnasfpnOptions& options, const Backbone& backbone)
      : options_(options), padding_(options.use_explicit_padding ? Padding::kFixed : Padding::kSame) {
    Hyperparams hyperparams = mnasfpn_hyperparams(0.0001, options.freeze_batch_norm);
    hyperparams.activation = Activation::kNone;
    const int64_t depth = scaled(options.depth);
    Hyperparams unpenalised = hyperparams;
    unpenalised.regularizer = {};
    coarsest_ = register_module(
        "C6_Conv1x1",
        std::make_shared<ConvBlock>(
            ConvBlockOptions{.in_depth = backbone.depth(options.endpoints[2]), .out_depth = depth}, unpenalised));
    std::vector<int64_t> depths;
    for (const std::string& endpoint : options.endpoints) depths.push_back(backbone.depth(endpoint));
    depths.push_back(depth);
    for (int64_t cell = 0; cell < kCells; ++cell) {
      cells_.push_back(build_cell(fmt::format("cell_{}", cell), depths, hyperparams));
      depths.assign(kLevels, depth);
    }
  }

  std::vector<at::Tensor> forward(const Endpoints& endpoints, const Context&) override {
    std::vector<at::Tensor> maps;
    for (const std::string& endpoint : options_.endpoints) maps.push_back(endpoints.at(endpoint));
    maps.push_back(coarsest_->forward(max_pool(maps.back(), 3, 2, padding_)));
    for (size_t level = 1; level < maps.size(); ++level)
      if (maps[level].size(2) != maps[0].size(2) >> level || maps[level].size(3) != maps[0].size(3) >> level)
        throw ConfigError(
            fmt::format("the image size does not suit the feature pyramid: level {} is {}x{} and level 3 "
                        "{}x{}; use a size that is a multiple of 64, or pad_to_multiple",
                        level + kMinLevel, maps[level].size(2), maps[level].size(3), maps[0].size(2), maps[0].size(3)));
    for (const std::vector<Made>& cell : cells_) maps = run(cell, std::move(maps));
    return maps;
  }

  std::set<std::string> endpoints() const override { return {options_.endpoints.begin(), options_.endpoints.end()}; }
  std::vector<int64_t> depths() const override { return std::vector<int64_t>(kLevels, scaled(options_.depth)); }
  std::string scope() const override { return "MnasFPN"; }

 private:
  struct Made {  // of a block
    std::array<std::shared_ptr<ConvBlock>, 2> inputs;
    std::shared_ptr<SeparableConvBlock> output;
  };

  int64_t scaled(int64_t depth) const {
    return make_divisible(static_cast<double>(depth) * options_.depth_multiplier, 8, options_.min_depth);
  }

  static int64_t level_of(size_t place) {
    return place < kLevels ? kMinLevel + static_cast<int64_t>(place) : kCell[place - kLevels].level;
  }

  std::vector<Made> build_cell(const std::string& scope, std::vector<int64_t> depths, const Hyperparams& hyperparams) {
    std::vector<Made> blocks;
    for (size_t b = 0; b < std::size(kCell); ++b) {
      const Block& block = kCell[b];
      const std::string here = fmt::format("{}/block_{}", scope, b);
      Made made;
      for (size_t i = 0; i < 2; ++i)
        made.inputs[i] = add_child(*this, fmt::format("{}/input_{}/Conv1x1", here, i),
                                   std::make_shared<ConvBlock>(ConvBlockOptions{.in_depth = depths[block.inputs[i]],
                                                                                .out_depth = scaled(block.expansion)},
                                                               hyperparams));
      made.output = add_child(*this, here + "/SepConv",
                              std::make_shared<SeparableConvBlock>(
                                  SeparableConvBlockOptions{.in_depth = scaled(block.expansion),
                                                            .out_depth = scaled(options_.depth),
                                                            .kernel = {block.kernel, block.kernel},
                                                            .padding = padding_,
                                                            .depthwise_initializer = kDepthwiseInitializer},
                                  hyperparams));
      depths.push_back(scaled(options_.depth));
      blocks.push_back(std::move(made));
    }
    return blocks;
  }

  /// To the block's depth and level. A 1x1 convolution runs on the smaller of the two maps.
  at::Tensor brought(const at::Tensor& x, int64_t steps, ConvBlock& convolution) const {
    if (steps > 0) return convolution.forward(max_pool(x, 3, int64_t{1} << steps, padding_));
    const at::Tensor y = convolution.forward(x);
    return steps == 0 ? y : upsampled(y, int64_t{1} << -steps);
  }

  std::vector<at::Tensor> run(const std::vector<Made>& cell, std::vector<at::Tensor> maps) const {
    for (size_t b = 0; b < cell.size(); ++b) {
      std::array<at::Tensor, 2> inputs;
      for (size_t i = 0; i < 2; ++i) {
        const size_t from = kCell[b].inputs[i];
        inputs[i] = brought(maps[from], kCell[b].level - level_of(from), *cell[b].inputs[i]);
      }
      maps.push_back(cell[b].output->forward(activate(inputs[0] + inputs[1], Activation::kRelu6)));
    }
    // The last blocks are the outputs; the cell's inputs come on top of them where they fit.
    const size_t first = maps.size() - kLevels;
    for (size_t i = 0; i < kLevels; ++i)
      if (maps[first + i].sizes() == maps[i].sizes()) maps[first + i] = maps[first + i] + maps[i];
    return {maps.begin() + static_cast<ptrdiff_t>(first), maps.end()};
  }

  MnasfpnOptions options_;
  Padding padding_;
  std::shared_ptr<ConvBlock> coarsest_;
  std::vector<std::vector<Made>> cells_;
};

}  // namespace

Hyperparams mnasfpn_hyperparams(double l2, bool freeze_batch_norm) {
  Hyperparams result;
  result.regularizer = result.depthwise_regularizer = {Regularizer::Kind::kL2, l2};
  result.initializer = Initializer::variance_scaling(2, Initializer::Mode::kFanIn, /*uniform=*/false);
  result.batch_norm = BatchNormOptions{.decay = 0.99, .epsilon = 0.01, .scale = true, .train = !freeze_batch_norm};
  return result;
}

std::unique_ptr<Neck> make_mnasfpn_neck(const MnasfpnOptions& options, const Backbone& backbone) {
  return std::make_unique<Mnasfpn>(options, backbone);
}

}  // namespace osprey::nn
