#include <algorithm>
#include <regex>

#include "osprey/optim/gradients.h"

namespace osprey::optim {
namespace {

/// Which of the names a pattern of the list matches.
/// unused  the patterns that match none are added to it
std::vector<bool> matched(const std::vector<std::string>& names, const std::vector<std::string>& patterns,
                          std::vector<std::string>& unused) {
  std::vector<bool> result(names.size());
  for (const std::string& pattern : patterns) {
    const std::regex regex(pattern);
    const auto matches_any = [&](std::regex_constants::match_flag_type where) {
      bool any = false;
      for (size_t i = 0; i < names.size(); ++i) {
        if (!std::regex_search(names[i], regex, where)) continue;
        result[i] = any = true;
      }
      return any;
    };
    if (!matches_any(std::regex_constants::match_continuous) && !matches_any(std::regex_constants::match_default))
      unused.push_back(pattern);
  }
  return result;
}

}  // namespace

FilteredVariables filter_variables(const NamedTensors& parameters, const VariableFilter& filter) {
  std::vector<std::string> names;
  for (const auto& entry : parameters) {
    std::string& name = names.emplace_back(entry.first);
    std::replace(name.begin(), name.end(), '.', '/');
  }
  FilteredVariables result;
  const std::vector<bool> wanted = matched(names, filter.update, result.unused_patterns),
                          unwanted = matched(names, filter.freeze, result.unused_patterns);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto& [name, parameter] = parameters[i];
    const bool frozen = unwanted[i] || !(wanted[i] || filter.update.empty());
    if (frozen) at::Tensor(parameter).set_requires_grad(false);
    (frozen ? result.frozen : result.trained).emplace_back(name, parameter);
  }
  return result;
}

}  // namespace osprey::optim
