#pragma once
#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/cli.h"

namespace osprey {

/// What benchmarks of a model are told.
struct ModelFlags {
  std::string pipeline_config, precision = "fp32", device;
  std::vector<std::string> overrides;
  int64_t batch_size;

  ModelFlags(CLI::App& app, int64_t usual_batch_size) : batch_size(usual_batch_size) {
    app.add_option("--pipeline_config", pipeline_config)->required();
    app.add_option("--batch_size", batch_size)->check(cli::at_least(1));
    app.add_option("--precision", precision)->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
    app.add_option("--set", overrides);
    cli::add_device_flag(app, device);
    cli::use_exact_float32();
    at::globalContext().setBenchmarkCuDNN(true);  // as training does
  }

  /// Of the numbers that maps consist of.
  at::ScalarType map_type() const {
    return precision == "bf16" ? at::kBFloat16 : precision == "fp16" ? at::kHalf : at::kFloat;
  }

  /// Returns when the device has done all that it was given.
  void wait() const {
    const at::Device own(device);
    if (!own.is_cpu()) c10::impl::VirtualGuardImpl(own.type()).synchronizeDevice(own.has_index() ? own.index() : 0);
  }
};

}  // namespace osprey
