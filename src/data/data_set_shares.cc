#include "data_set_shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "osprey/data/input_paths.h"

namespace osprey::data {
namespace {

using ReaderNode = config::ConfigNode<proto::InputReader>;

/// The input_path that each file belongs to.
std::map<std::string, size_t> path_of_file(const ReaderNode& reader) {
  std::map<std::string, size_t> result;
  const auto& paths = reader->tf_record_input_reader().input_path();
  for (size_t i = 0; i < static_cast<size_t>(paths.size()); ++i)
    for (const std::string& file : expand_input_paths({paths[static_cast<int>(i)]}, reader.path()))
      if (const auto [other, is_new] = result.emplace(file, i); !is_new && other->second != i)
        reader.fail("sample_from_datasets_weights",
                    fmt::format("'{}' is of two paths, '{}' and '{}', with a weight each", file,
                                paths[static_cast<int>(other->second)], paths[static_cast<int>(i)]));
  return result;
}

}  // namespace

std::vector<int64_t> parts_by_weight(int64_t total, const std::vector<double>& weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> parts;
  std::vector<double> missing;
  for (const double weight : weights) {
    const double exact = static_cast<double>(total) * weight / sum;
    parts.push_back(static_cast<int64_t>(std::floor(exact)));
    missing.push_back(exact - std::floor(exact));
  }
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return missing[a] > missing[b]; });
  int64_t left = total - std::accumulate(parts.begin(), parts.end(), int64_t{0});
  for (size_t i = 0; i < order.size() && left > 0; ++i, --left) ++parts[order[i]];
  return parts;
}

std::vector<DataSetShare> data_set_shares(const ExampleIndex& index, const ReaderNode& reader, int64_t keep_1_of) {
  const std::map<std::string, size_t> paths = path_of_file(reader);
  const auto& weights = reader->sample_from_datasets_weights();
  std::vector<DataSetShare> sets(static_cast<size_t>(weights.size()));
  int64_t total = 0;
  for (int64_t record = 0; record < index.size(); record += keep_1_of, ++total)
    sets[paths.at(index.origin(record).file)].records.push_back(record);
  const std::vector<int64_t> parts = parts_by_weight(total, std::vector<double>(weights.begin(), weights.end()));
  for (size_t i = 0; i < sets.size(); ++i) {
    sets[i].per_epoch = parts[i];
    if (parts[i] > 0 && sets[i].records.empty())
      reader.fail("sample_from_datasets_weights",
                  fmt::format("there are no records in '{}' to draw from",
                              reader->tf_record_input_reader().input_path(static_cast<int>(i))));
  }
  return sets;
}

}  // namespace osprey::data
