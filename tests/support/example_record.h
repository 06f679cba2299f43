#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "osprey/records/example.pb.h"

namespace osprey::testing {

/// Writes a tf.Example key by key: `ExampleRecord().ints("image/height", {4}).bytes()`.
class ExampleRecord {
 public:
  ExampleRecord& strings(const std::string& key, const std::vector<std::string>& values);
  ExampleRecord& floats(const std::string& key, const std::vector<float>& values);
  ExampleRecord& ints(const std::string& key, const std::vector<int64_t>& values);
  /// A box in all four lists; and its label, unless 0 is given.
  ExampleRecord& box(float ymin, float xmin, float ymax, float xmax, int64_t label = 0);
  ExampleRecord& erase(const std::string& key);
  std::string bytes() const { return message_.SerializeAsString(); }

 private:
  records::Feature& feature(const std::string& key) { return (*message_.mutable_features()->mutable_feature())[key]; }
  records::Example message_;
};

/// A record with a picture of that size and a source id, to add to.
ExampleRecord picture_record(int64_t height, int64_t width, const std::string& source_id = "17");

}  // namespace osprey::testing
