#pragma once
#include <array>
#include <string>
#include <vector>

#include "osprey/nn/convolution.h"

namespace osprey::nn {

/// One layer of a branch of an Inception module.
struct InceptionLayer {
  enum class Kind { kConvolution, kMaxPool, kAveragePool, kFork };
  Kind kind = Kind::kConvolution;
  std::string name = "";  ///< scope of the convolution
  int64_t depth = 0;      ///< output channels, before the multiplier
  std::array<int64_t, 2> kernel = {1, 1};
  int64_t stride = 1;
  Padding padding = Padding::kSame;
  std::string other_name = "";               ///< kFork: a second convolution of the same input and depth, whose
  std::array<int64_t, 2> other_kernel = {};  ///< output is put behind that of the first
};

/// Shorthands for the tables of a network.
namespace inception {
constexpr std::array<int64_t, 2> k1x3 = {1, 3}, k3x1 = {3, 1}, k3x3 = {3, 3}, k5x5 = {5, 5}, k1x7 = {1, 7},
                                 k7x1 = {7, 1};
InceptionLayer conv(const std::string& name, int64_t depth, std::array<int64_t, 2> kernel = {1, 1}, int64_t stride = 1,
                    Padding padding = Padding::kSame);
InceptionLayer fork(int64_t depth, const std::string& name, std::array<int64_t, 2> kernel,
                    const std::string& other_name, std::array<int64_t, 2> other_kernel);
/// Pools of 3x3.
InceptionLayer max_pool(int64_t stride, Padding padding = Padding::kSame);
InceptionLayer average_pool();
}  // namespace inception

/// What the depths of a table become: max(depth * multiplier, least).
struct InceptionDepths {
  double multiplier = 1;
  int64_t least = 16;
  int64_t operator()(int64_t depth) const {
    return std::max(static_cast<int64_t>(static_cast<double>(depth) * multiplier), least);
  }
};

/// Branches side by side on one input, their outputs put one behind the other.
/// source  Szegedy et al., "Rethinking the Inception Architecture for Computer Vision", CVPR 2016
class InceptionModule : public torch::nn::Module {
 public:
  using Branch = std::vector<InceptionLayer>;

  InceptionModule(int64_t in_depth, const std::vector<Branch>& branches, const InceptionDepths& depths,
                  const Hyperparams& hyperparams);

  /// x  [B, in_depth, H, W]
  at::Tensor forward(const at::Tensor& x);
  int64_t out_depth() const { return out_depth_; }

 private:
  struct Step {
    InceptionLayer layer;
    std::shared_ptr<ConvBlock> block, other;  // the second for a fork; none for a pool
  };
  std::vector<std::vector<Step>> branches_;
  int64_t out_depth_ = 0;
};

}  // namespace osprey::nn
