#pragma once
#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "osprey/config/pipeline.h"

namespace osprey::config {

/// The config as text format, every value that is set and nothing else; parsing it gives an equal message. This is what
/// a run saves as pipeline.config.
std::string effective_text(const google::protobuf::Message& message);

/// The same with the origin of every value behind it as a comment: "batch_size: 8  # p.config:41", "# --set".
std::string annotated_text(const Pipeline& pipeline);

/// The values in which two messages of a type differ, one line each: "modified: train_config.batch_size: 8 -> 16".
/// Empty where they are equal. A value that is not set and its default are different.
std::string differences(const google::protobuf::Message& before, const google::protobuf::Message& after);

/// A single value that a config sets.
struct SetValue {
  std::string path;
  std::string text;  ///< as text format writes it
  Origin origin;
};

/// Every single value (no messages) that is set, in the order of the schema.
std::vector<SetValue> set_values(const Pipeline& pipeline);

}  // namespace osprey::config
