#pragma once
#include <memory>

#include "osprey/data/example_index.h"

namespace osprey::data {

/// The examples of another index, each with one object: the whole picture, of the class that image/class/label,
/// image/class/text or both say. Objects that they have are gone.
class PictureLabelIndex final : public ExampleIndex {
 public:
  explicit PictureLabelIndex(std::unique_ptr<ExampleIndex> examples) : examples_(std::move(examples)) {}

  int64_t size() const override { return examples_->size(); }
  /// throws  also BadRecord for an example that has no label, or several
  std::string read(int64_t index) const override;
  RecordOrigin origin(int64_t index) const override { return examples_->origin(index); }
  std::vector<std::string> problems() const override { return examples_->problems(); }

 private:
  std::unique_ptr<ExampleIndex> examples_;
};

}  // namespace osprey::data
