#include "osprey/base/nearest.h"

#include <algorithm>

namespace osprey {
namespace {

/// Three rows of the optimal-string-alignment table: before the previous, previous, current.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> older(b.size() + 1), old(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    older.swap(old);
    old.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({old[j] + 1, row[j - 1] + 1, old[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], older[j - 2] + 1);
    }
  }
  return row[b.size()];
}

bool is_part(std::string_view name, std::string_view candidate) {
  return name.size() >= 4 && candidate.size() > name.size() &&
         (candidate.substr(0, name.size()) == name || candidate.substr(candidate.size() - name.size()) == name);
}

}  // namespace

std::string nearest(std::string_view name, const std::vector<std::string>& candidates) {
  constexpr size_t kLongestName = 100;  // longer ones are no typing mistakes
  if (name.size() > kLongestName) return "";
  std::string best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    size_t distance = edit_distance(name, candidate);
    if (is_part(name, candidate)) distance = std::min<size_t>(distance, 2);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string found = nearest(name, candidates);
  return found.empty() ? "" : "; did you mean \"" + found + "\"?";
}

}  // namespace osprey
