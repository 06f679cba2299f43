#pragma once
#include "osprey/kernels/activated_convolution.h"
#include "osprey/kernels/batch_norm_activation.h"
#include "osprey/kernels/normalized_convolution.h"
#include "osprey/nn/activation.h"
#include "osprey/nn/feature_map.h"
#include "osprey/nn/layer.h"

namespace osprey::nn {

/// Batch normalisation as the config describes it.
struct BatchNormOptions {
  double decay =
      0.999;  ///< of the moving averages: new = decay * old + (1 - decay) * batch; torch's momentum is 1 - decay
  double epsilon = 0.001;
  bool center = true;         ///< has beta
  bool scale = false;         ///< has gamma
  double gamma_init = 1;      ///< first value of gamma
  bool train = true;          ///< false: training, too, uses the moving averages and leaves them alone
  bool synchronized = false;  ///< statistics over all replicas; one replica makes no difference
  bool keep_biased = false;   ///< the moving variance is the biased one
};

/// Normalises each channel, then scales, shifts and activates.
///
/// Variables: gamma, beta (each where it is wanted), moving_mean, moving_variance.
/// In training mode the statistics are those of the batch. What they would make of the moving averages is kept aside
/// until `commit`; several forward passes before one commit count as one, by the mean of their statistics. The moving
/// variance is the unbiased one unless `keep_biased`; a batch with a single value per channel counts as variance 0.
///
/// source  Ioffe and Szegedy, "Batch Normalization", ICML 2015; TensorFlow's fused_batch_norm for the variance
class BatchNorm : public Layer {
 public:
  BatchNorm(int64_t depth, const BatchNormOptions& options);

  /// x  [B, C, H, W] float32 or half the bits; gradients flow to x, gamma and beta; a tensor of the meta device comes
  ///    back as it is
  at::Tensor forward(const at::Tensor& x, Activation activation = Activation::kNone);
  /// The same plus an addend, before the activation; gradients flow to it, too.
  /// addend  as large as x
  ForkedMap forward_plus(const at::Tensor& x, const at::Tensor& addend, Activation activation);

  /// Whether `leave` may take the place of `forward`: the statistics are those of this replica's batch, and the kernels
  /// know the activation.
  bool can_be_left(Activation activation) const;
  /// Takes note of the statistics of a map and leaves the rest to whoever reads it.
  kernels::PendingMap leave(const kernels::MapWithStatistics& map, Activation activation);
  double epsilon() const { return options_.epsilon; }

  /// Batch norm as a part of the convolution before it: (convolve(x, factor * weights) - mean) * correction + shift.
  struct Folded {
    at::Tensor factor;      ///< [C] float32: gamma over the deviation of the moving averages
    at::Tensor mean;        ///< [C]: of convolve(x, factor * weights); undefined: 0
    at::Tensor correction;  ///< [C]: the deviation of the moving averages over that of the batch; undefined: 1
    at::Tensor shift;       ///< [C]; undefined: 0
  };
  /// By the moving averages.
  Folded fold() const;
  /// By the statistics of the batch, of which notice is taken.
  /// y  [B, C, H, W] what the convolution makes by itself; gradients flow to it
  Folded fold(const at::Tensor& y);
  /// The same of a map that `leave` would take.
  Folded fold(const kernels::MapWithStatistics& map);

  /// Of what a convolution makes of `input`, in one with it (kernels/activated_convolution.h).
  /// activation  can be left, and is a clamp
  /// next        its own batch norm takes note of its statistics by `leave`
  kernels::ActivatedConvolution forward(const kernels::PendingMap& input, const at::Tensor& weights,
                                        const kernels::SlidingWindow& window, const at::Tensor& addend,
                                        Activation activation, const kernels::NextConvolution& next);

  /// Whether forward uses, and updates from, the statistics of the batch.
  bool uses_batch_statistics() const { return is_training() && options_.train; }

  /// Whether the config wants statistics over all replicas for this layer.
  bool wants_replicas() const { return options_.synchronized; }
  /// From now on the statistics of a batch are those of all replicas together; null: of this one by itself.
  void synchronize(std::shared_ptr<const kernels::ReplicaSum> over) { over_ = std::move(over); }

  /// What was kept aside since the last commit or discard becomes part of the averages: of all these layers together,
  /// in few launches.
  /// proceed  scalar bool on the device: false, it is thrown away; undefined: true
  static void commit(const std::vector<BatchNorm*>& layers, const at::Tensor& proceed = {});
  void discard_statistics() override { passes_.clear(); }

 private:
  /// The statistics of a forward pass.
  struct Pass {
    at::Tensor mean, inverse_deviation;
    double unbiased;  ///< what the variance is multiplied with
  };
  at::Tensor rate();
  Folded fold(const at::Tensor& mean, const at::Tensor& inverse_deviation) const;
  void keep_aside(const at::Tensor& mean, const at::Tensor& inverse_deviation, int64_t values_per_channel);

  BatchNormOptions options_;
  at::Tensor gamma_, beta_, moving_mean_, moving_variance_;
  std::vector<Pass> passes_;  ///< kept aside
  at::Tensor rate_;           ///< [1] 1 - decay, where the averages are
  std::shared_ptr<const kernels::ReplicaSum> over_;
};

}  // namespace osprey::nn
