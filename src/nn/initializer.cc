#include "osprey/nn/initializer.h"

#include <ATen/ATen.h>
#include <ATen/core/PhiloxRNGEngine.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <cmath>

#include "osprey/core/example_draws.h"
#include "osprey/kernels/parallel.h"

namespace osprey::nn {
namespace {

constexpr int64_t kBlock = 4096;  // values that share one counter stream; fixed, so that threads do not matter

/// Standard normal and uniform draws from one counter stream.
class Draws {
 public:
  Draws(uint64_t seed, uint64_t stream) : engine_(seed, stream) {}
  double uniform() { return (engine_() + 0.5) * 0x1p-32; }  // in (0, 1)
  double normal() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2 * std::log(uniform())), angle = 2 * M_PI * uniform();
    spare_ = radius * std::sin(angle);
    has_spare_ = true;
    return radius * std::cos(angle);
  }
  double truncated_normal() {
    double value = normal();
    while (std::abs(value) > 2) value = normal();
    return value;
  }

 private:
  at::Philox4_32 engine_;
  double spare_ = 0;
  bool has_spare_ = false;
};

double fan(const Initializer& initializer, const Fans& fans) {
  switch (initializer.mode) {
    case Initializer::Mode::kFanIn:
      return fans.in;
    case Initializer::Mode::kFanOut:
      return fans.out;
    case Initializer::Mode::kFanAverage:
      break;
  }
  return (fans.in + fans.out) / 2;
}

/// Variance scaling is one of the others once the fan is known.
Initializer resolve(const Initializer& initializer, const Fans& fans) {
  if (initializer.kind != Initializer::Kind::kVarianceScaling) return initializer;
  const double factor = initializer.spread / std::max(1.0, fan(initializer, fans));
  if (initializer.uniform) return {Initializer::Kind::kUniform, 0, std::sqrt(3 * factor)};
  return Initializer::truncated_normal(0, std::sqrt(1.3 * factor));  // 1.3 makes up for the cut tails
}

double draw(Draws& draws, const Initializer& initializer) {
  switch (initializer.kind) {
    case Initializer::Kind::kNormal:
      return initializer.mean + initializer.spread * draws.normal();
    case Initializer::Kind::kTruncatedNormal:
      return initializer.mean + initializer.spread * draws.truncated_normal();
    case Initializer::Kind::kUniform:
      return initializer.mean + initializer.spread * (2 * draws.uniform() - 1);
    case Initializer::Kind::kConstant:
    case Initializer::Kind::kVarianceScaling:
      break;
  }
  return initializer.mean;
}

}  // namespace

void initialize(const at::Tensor& tensor, const Initializer& initializer, const Fans& fans, const std::string& name,
                uint64_t seed) {
  at::NoGradGuard no_grad;
  if (initializer.kind == Initializer::Kind::kConstant) {
    tensor.fill_(initializer.mean);
    return;
  }
  TORCH_CHECK(tensor.is_cpu() && tensor.scalar_type() == at::kFloat, name,
              ": first values are drawn on the CPU, as float");
  const Initializer plain = resolve(initializer, fans);
  const at::Tensor values = at::empty(tensor.sizes());  // contiguous, whatever the order of the variable
  float* out = values.data_ptr<float>();
  const int64_t count = values.numel(), blocks = (count + kBlock - 1) / kBlock;
  const uint64_t stream = name_key(name);
  kernels::parallel_for(blocks, [&](int64_t block) {
    Draws draws(seed, stream + static_cast<uint64_t>(block));
    for (int64_t i = block * kBlock; i < std::min(count, (block + 1) * kBlock); ++i)
      out[i] = static_cast<float>(draw(draws, plain));
  });
  tensor.copy_(values);
}

}  // namespace osprey::nn
