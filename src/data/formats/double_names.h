#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "osprey/data/annotations.h"

namespace osprey::data {

/// Counts classes that become one because they have one name, which is seldom meant.
/// names  of classes, by the ids that the file gives them; empty ones are none
void count_double_names(const std::map<int64_t, std::string>& names, const std::string& file, Problems& problems);

}  // namespace osprey::data
