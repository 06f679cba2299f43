#pragma once

namespace osprey::data {

/// Makes tensor operations of the calling thread run on this thread alone. Other threads keep their number.
void use_one_thread();

}  // namespace osprey::data
