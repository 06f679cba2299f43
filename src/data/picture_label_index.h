#pragma once
#include <memory>

#include "osprey/data/example_index.h"

namespace osprey::data {

/// A record with one object in place of those that it has: the whole picture, of the class that image/class/label,
/// image/class/text or both say.
/// throws  BadRecord for one that has no label, or several
std::string with_picture_label(std::string record, const RecordOrigin& origin);

/// The examples of another index, each with the label of its picture as its object.
class PictureLabelIndex final : public ExampleIndex {
 public:
  explicit PictureLabelIndex(std::unique_ptr<ExampleIndex> examples) : examples_(std::move(examples)) {}

  int64_t size() const override { return examples_->size(); }
  std::string read(int64_t index) const override {
    return with_picture_label(examples_->read(index), examples_->origin(index));
  }
  RecordOrigin origin(int64_t index) const override { return examples_->origin(index); }
  std::vector<std::string> problems() const override { return examples_->problems(); }

 private:
  std::unique_ptr<ExampleIndex> examples_;
};

}  // namespace osprey::data
