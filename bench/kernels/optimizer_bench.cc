// The momentum optimizer over the parameters of a config's model: the kernel, and the same update by multi-tensor
// operations.
// usage: optimizer_bench CONFIG [CALLS]; prints one JSON line, best of the calls in seconds.
// The same sizes by PyTorch: bench/peers/torch_sgd.py
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "measure.h"
#include "osprey/config/pipeline.h"
#include "osprey/kernels/parameter_update.h"
#include "osprey/models/builder.h"

int main(int argc, char** argv) {
  using namespace osprey;
  if (argc < 2) {
    std::fprintf(stderr, "usage: optimizer_bench CONFIG [CALLS]\n");
    return 2;
  }
  const int calls = argc > 2 ? std::atoi(argv[2]) : 20;
  const config::Pipeline pipeline = config::load_pipeline(argv[1], std::vector<std::string>{"graph_rewriter="});
  const auto model = models::build_model(pipeline.root(), {.seed = 0});
  std::vector<at::Tensor> values, gradients, accumulators;
  int64_t numbers = 0;
  for (const at::Tensor& parameter : model->parameters()) {
    values.push_back(parameter.detach());
    gradients.push_back(at::randn_like(values.back()));
    accumulators.push_back(at::zeros_like(values.back()));
    numbers += parameter.numel();
  }
  const at::Tensor rule = at::tensor({0.9f, 1.0f, -1e-6f});
  const double fused = best_of(calls, [&] {
    kernels::update_parameters(kernels::UpdateRule::kMomentum, {values, gradients, {accumulators}}, rule);
  });
  const double composed = best_of(calls, [&] {
    at::_foreach_mul_(accumulators, 0.9);
    at::_foreach_add_(accumulators, gradients, 1);
    at::_foreach_add_(values, accumulators, -1e-6);
  });
  fmt::print("{{\"parameters\": {}, \"kernel_s\": {:.5f}, \"composed_s\": {:.5f}, \"ratio\": {:.2f}}}\n", numbers,
             fused, composed, composed / fused);
}
