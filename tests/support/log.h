#pragma once
#include <functional>
#include <string>

namespace osprey::testing {

/// What is logged while `call` runs, instead of where else it would go.
std::string logged_by(const std::function<void()>& call);

}  // namespace osprey::testing
