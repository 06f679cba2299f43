#pragma once

namespace osprey::kernels {

/// What the codes of y, x, height and width are multiplied by; a stand-in for one over their typical spread.
struct CodeScales {
  float y = 10, x = 10, height = 5, width = 5;
};

}  // namespace osprey::kernels
