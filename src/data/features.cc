#include "features.h"

#include <fmt/format.h>

#include "osprey/data/read_report.h"

namespace osprey::data {
namespace {

const char* name_of(records::Feature::KindCase kind) {
  switch (kind) {
    case records::Feature::kBytesList:
      return "strings";
    case records::Feature::kFloatList:
      return "floats";
    case records::Feature::kInt64List:
      return "integers";
    default:
      return "nothing";
  }
}

}  // namespace

Features::Features(std::string_view record, std::string where) : where_(std::move(where)) {
  if (record.size() > (size_t{1} << 31) - 1 || !message_.ParseFromArray(record.data(), static_cast<int>(record.size())))
    throw BadRecord(where_ + ": is not a tf.Example", BadRecord::Cause::kNotAnExample);
}

void Features::fail(const std::string& key, const std::string& message, BadRecord::Cause cause) const {
  throw BadRecord(fmt::format("{}: {}: {}", where_, key, message), cause);
}

const records::Feature* Features::find(const std::string& key, records::Feature::KindCase kind) const {
  const auto& map = message_.features().feature();
  const auto found = map.find(key);
  if (found == map.end() || found->second.kind_case() == records::Feature::KIND_NOT_SET) return nullptr;
  if (found->second.kind_case() != kind)
    fail(key, fmt::format("holds {}, expected {}", name_of(found->second.kind_case()), name_of(kind)));
  return &found->second;
}

std::span<const float> Features::floats(const std::string& key) const {
  const records::Feature* feature = find(key, records::Feature::kFloatList);
  if (feature == nullptr) return {};
  return {feature->float_list().value().data(), static_cast<size_t>(feature->float_list().value_size())};
}

std::span<const int64_t> Features::ints(const std::string& key) const {
  const records::Feature* feature = find(key, records::Feature::kInt64List);
  if (feature == nullptr) return {};
  return {feature->int64_list().value().data(), static_cast<size_t>(feature->int64_list().value_size())};
}

std::span<const std::string* const> Features::strings(const std::string& key) const {
  const records::Feature* feature = find(key, records::Feature::kBytesList);
  if (feature == nullptr) return {};
  return {feature->bytes_list().value().data(), static_cast<size_t>(feature->bytes_list().value_size())};
}

int64_t Features::first_int(const std::string& key, int64_t missing) const {
  const auto values = ints(key);
  return values.empty() ? missing : values.front();
}

std::string Features::first_string(const std::string& key) const {
  const auto values = strings(key);
  return values.empty() ? "" : *values.front();
}

std::string Features::take_string(const std::string& key) {
  if (strings(key).empty()) return "";
  return std::move(*message_.mutable_features()->mutable_feature()->at(key).mutable_bytes_list()->mutable_value(0));
}

void Features::check_length(const std::string& key, size_t length, size_t size) const {
  if (length != 0 && length != size)
    fail(key, fmt::format("has {} values for {} boxes", length, size), BadRecord::Cause::kLengths);
}

std::span<const float> Features::floats(const std::string& key, size_t size) const {
  const auto values = floats(key);
  check_length(key, values.size(), size);
  return values;
}

std::span<const int64_t> Features::ints(const std::string& key, size_t size) const {
  const auto values = ints(key);
  check_length(key, values.size(), size);
  return values;
}

std::span<const std::string* const> Features::strings(const std::string& key, size_t size) const {
  const auto values = strings(key);
  check_length(key, values.size(), size);
  return values;
}

}  // namespace osprey::data
