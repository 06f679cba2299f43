#include <algorithm>
#include <regex>

#include "osprey/optim/gradients.h"

namespace osprey::optim {
namespace {

class Patterns {
 public:
  explicit Patterns(const std::vector<std::string>& patterns) {
    for (const std::string& pattern : patterns) patterns_.push_back({pattern, std::regex(pattern)});
  }

  /// Every pattern is tried, so that an unused one is known.
  bool match(const std::string& tensorflow_name) {
    bool any = false;
    for (Entry& entry : patterns_) {
      if (!std::regex_search(tensorflow_name, entry.regex, std::regex_constants::match_continuous)) continue;
      entry.used = any = true;
    }
    return any;
  }

  void append_unused(std::vector<std::string>& unused) const {
    for (const Entry& entry : patterns_)
      if (!entry.used) unused.push_back(entry.text);
  }

 private:
  struct Entry {
    std::string text;
    std::regex regex;
    bool used = false;
  };
  std::vector<Entry> patterns_;
};

}  // namespace

FilteredVariables filter_variables(const NamedTensors& parameters, const VariableFilter& filter) {
  Patterns update(filter.update), freeze(filter.freeze);
  FilteredVariables result;
  for (const auto& [name, parameter] : parameters) {
    std::string tensorflow_name = name;
    std::replace(tensorflow_name.begin(), tensorflow_name.end(), '.', '/');
    const bool wanted = update.match(tensorflow_name) || filter.update.empty();
    const bool frozen = freeze.match(tensorflow_name) || !wanted;
    if (frozen) at::Tensor(parameter).set_requires_grad(false);
    (frozen ? result.frozen : result.trained).emplace_back(name, parameter);
  }
  update.append_unused(result.unused_patterns);
  freeze.append_unused(result.unused_patterns);
  return result;
}

}  // namespace osprey::optim
