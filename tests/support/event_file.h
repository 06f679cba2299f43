#pragma once
#include <string>
#include <vector>

#include "osprey/records/event.pb.h"

namespace osprey::testing {

/// The events of a TensorBoard file; every checksum is looked at.
std::vector<records::Event> read_events(const std::string& path);

}  // namespace osprey::testing
