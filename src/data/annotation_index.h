#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "osprey/config/node.h"
#include "osprey/data/annotations.h"
#include "osprey/data/example_index.h"

namespace osprey::data {

/// Annotated pictures as the tf.Examples that create_records writes of them, made when they are read. Pictures stay on
/// disk until then; their boxes are checked by whoever decodes the record.
class AnnotationIndex final : public ExampleIndex {
 public:
  /// problems  that the source met while it was opened
  AnnotationIndex(std::unique_ptr<AnnotationSource> source, std::shared_ptr<const config::LabelMap> label_map,
                  const Problems& problems);

  int64_t size() const override { return source_->size(); }
  std::string read(int64_t index) const override;
  RecordOrigin origin(int64_t index) const override { return source_->origin(index); }
  std::vector<std::string> problems() const override { return problems_.lines(); }

 private:
  std::unique_ptr<AnnotationSource> source_;
  std::shared_ptr<const config::LabelMap> label_map_;
  mutable Problems problems_;
  mutable std::vector<std::atomic<bool>> counted_;  // whose problems are among them
};

/// Opens what a reader names, as `open_annotations`.
/// throws  ConfigError with the field: a folder, list or description that is not there, a split that the set has not
std::unique_ptr<AnnotationSource> open_annotations(const config::ConfigNode<proto::AnnotationInputReader>& reader,
                                                   Problems& problems);

}  // namespace osprey::data
