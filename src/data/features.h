#pragma once
#include <span>
#include <string>
#include <vector>

#include "osprey/data/read_report.h"
#include "osprey/records/example.pb.h"

namespace osprey::data {

/// The features of one tf.Example by key and type. `where` begins every complaint.
/// throws  BadRecord for bytes that are no tf.Example and for a feature of another type
class Features {
 public:
  Features(std::string_view record, std::string where);

  const std::string& where() const { return where_; }
  /// More words for `where`, once they are known.
  void add_to_where(const std::string& words) { where_ += words; }

  /// Empty where the key is missing.
  std::span<const float> floats(const std::string& key) const;
  std::span<const int64_t> ints(const std::string& key) const;
  std::span<const std::string* const> strings(const std::string& key) const;

  /// The first value, or the default.
  int64_t first_int(const std::string& key, int64_t missing) const;
  std::string first_string(const std::string& key) const;
  /// The same, but moves it out of the message.
  std::string take_string(const std::string& key);

  /// As above for a list that has one value per object: throws BadRecord where it is neither empty nor `size` long.
  std::span<const float> floats(const std::string& key, size_t size) const;
  std::span<const int64_t> ints(const std::string& key, size_t size) const;
  std::span<const std::string* const> strings(const std::string& key, size_t size) const;

  /// throws BadRecord: "<where>: <key>: <message>"
  [[noreturn]] void fail(const std::string& key, const std::string& message,
                         BadRecord::Cause cause = BadRecord::Cause::kOther) const;

 private:
  const records::Feature* find(const std::string& key, records::Feature::KindCase kind) const;
  void check_length(const std::string& key, size_t length, size_t size) const;

  records::Example message_;
  std::string where_;
};

}  // namespace osprey::data
