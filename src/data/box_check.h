#pragma once
#include <string>
#include <vector>

#include "osprey/core/box.h"
#include "osprey/data/example_decoder.h"

namespace osprey::data {

struct BoxCheck {
  DecoderOptions::InvalidBox policy = DecoderOptions::InvalidBox::kClip;
  int64_t height = 1, width = 1;  ///< of the image, pixels: gives the tolerance of one pixel
  std::string where;              ///< record and source id
};

/// Looks at every box, cuts those that stay to the image, and returns the indices of the boxes that stay.
/// throws  BadRecord for pixel values in a normalised field; DataError for an invalid box under kFail
std::vector<int64_t> check_boxes(std::vector<Box>& boxes, const BoxCheck& check, ReadReport& report);

}  // namespace osprey::data
