#pragma once
#include "osprey/data/annotations.h"

namespace osprey::data {

/// Reads the picture at `path` into `encoded` and sets height and width to its size as it is seen: one that is stored
/// lying gets the size that it has upright, which makes readers turn it. For annotations in fractions of that size.
/// returns  false where it is no picture, which is said by whoever makes the record
bool read_upright(AnnotatedImage& image);

}  // namespace osprey::data
