#include "support/example_record.h"

#include "osprey/data/image_codec.h"
#include "support/pictures.h"

namespace osprey::testing {

ExampleRecord& ExampleRecord::strings(const std::string& key, const std::vector<std::string>& values) {
  auto* list = feature(key).mutable_bytes_list();
  list->clear_value();
  for (const std::string& value : values) list->add_value(value);
  return *this;
}

ExampleRecord& ExampleRecord::floats(const std::string& key, const std::vector<float>& values) {
  feature(key).mutable_float_list()->mutable_value()->Assign(values.begin(), values.end());
  return *this;
}

ExampleRecord& ExampleRecord::ints(const std::string& key, const std::vector<int64_t>& values) {
  feature(key).mutable_int64_list()->mutable_value()->Assign(values.begin(), values.end());
  return *this;
}

ExampleRecord& ExampleRecord::box(float ymin, float xmin, float ymax, float xmax, int64_t label) {
  feature("image/object/bbox/ymin").mutable_float_list()->add_value(ymin);
  feature("image/object/bbox/xmin").mutable_float_list()->add_value(xmin);
  feature("image/object/bbox/ymax").mutable_float_list()->add_value(ymax);
  feature("image/object/bbox/xmax").mutable_float_list()->add_value(xmax);
  if (label != 0) feature("image/object/class/label").mutable_int64_list()->add_value(label);
  return *this;
}

ExampleRecord& ExampleRecord::erase(const std::string& key) {
  message_.mutable_features()->mutable_feature()->erase(key);
  return *this;
}

ExampleRecord picture_record(int64_t height, int64_t width, const std::string& source_id) {
  ExampleRecord record;
  record.strings("image/encoded", {data::encode_png(gradient_image(height, width))})
      .strings("image/source_id", {source_id});
  return record;
}

}  // namespace osprey::testing
