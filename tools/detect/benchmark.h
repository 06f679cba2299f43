#pragma once
#include <string>
#include <vector>

#include "detect/pictures.h"

namespace osprey::tools {

/// Times `calls` full batches of each model and prints one JSON object per model.
/// models  as for ServedModel
void benchmark(const std::vector<std::string>& models, const std::string& device, const std::vector<Picture>& pictures,
               int calls);

}  // namespace osprey::tools
