#include "picture_label_index.h"

#include <utility>

#include "features.h"
#include "osprey/records/example.pb.h"

namespace osprey::data {
namespace {

/// Lists that a record has for each of its objects and the object in their place does not.
constexpr const char* kOtherLists[] = {
    "area", "is_crowd",    "difficult",  "group_of",   "truncated",           "weight",
    "mask", "mask/weight", "keypoint/x", "keypoint/y", "keypoint/visibility", "class/multiclass_scores"};

}  // namespace

std::string with_picture_label(std::string record, const RecordOrigin& origin) {
  const Features features(record, origin.describe());
  const auto labels = features.ints("image/class/label");
  const auto texts = features.strings("image/class/text");
  if (labels.empty() && texts.empty())
    features.fail("image/class/label", "is missing, and so is the text: label_of_picture wants one");
  for (const auto& [key, size] : {std::pair("image/class/label", labels.size()), {"image/class/text", texts.size()}})
    if (size > 1) features.fail(key, "has several values: label_of_picture wants one");
  records::Example object;  // behind the record its lists take the place of those in it, as the wire format has it
  auto& lists = *object.mutable_features()->mutable_feature();
  const auto list = [&lists](const std::string& key) -> records::Feature& { return lists["image/object/" + key]; };
  for (const char* key : kOtherLists) list(key);
  for (const char* key : {"bbox/ymin", "bbox/xmin"}) list(key).mutable_float_list()->add_value(0);
  for (const char* key : {"bbox/ymax", "bbox/xmax"}) list(key).mutable_float_list()->add_value(1);
  records::Feature &label = list("class/label"), &text = list("class/text");
  if (!labels.empty()) label.mutable_int64_list()->add_value(labels[0]);
  if (!texts.empty()) text.mutable_bytes_list()->add_value(*texts[0]);
  object.AppendToString(&record);
  return record;
}

}  // namespace osprey::data
