#include "detect/benchmark.h"

#include <ATen/Parallel.h>

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "detect/served_model.h"
#include "osprey/base/json_text.h"
#include "osprey/export/latency.h"

namespace osprey::tools {

void benchmark(const std::vector<std::string>& models, const std::string& device, const std::vector<Picture>& pictures,
               int calls) {
  std::vector<at::Tensor> images;
  for (const Picture& picture : pictures) images.push_back(decode(picture));
  for (const std::string& model : models) {
    const ServedModel served(model);
    const Latency found = measure_latency(Detector(served.folder(), device), images, calls);
    const nlohmann::ordered_json line{
        {"model", model},
        {"batch_size", found.batch_size},
        {"threads", at::get_num_threads()},
        {"images_per_second", found.images_per_second},
        {"latency_ms",
         {{"average", found.average_ms}, {"p90", found.p90_ms}, {"p95", found.p95_ms}, {"p99", found.p99_ms}}}};
    cli::print(json_text(line) + "\n");
  }
}

}  // namespace osprey::tools
