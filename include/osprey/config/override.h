#pragma once
#include <google/protobuf/message.h>

#include <string>

#include "osprey/config/source_map.h"

namespace osprey::config {

/// Applies one assignment, as given to `--set`, and records it as the origin of what it sets.
///
///     train_config.batch_size=8                      a number, a bool, an enum by name
///     train_config.fine_tune_checkpoint=/a/ckpt-0    strings need no quotes
///     train_config.fine_tune_checkpoint=             nothing after "=" clears the field, of whatever type
///     eval_input_reader[0].shuffle=true              an element of a list; the index just past the end appends
///     train_config.freeze_variables+=Conv            appends to a list
///     model.ssd.box_coder={square_box_coder {}}      a message as text; the braces may be left out
///
/// A list without an index is replaced by the values given (`[a, b]` for several). Setting a member of a oneof, or
/// anything below it, drops the other members.
///
/// throws ConfigError that begins with "--set" and the assignment, and names the field
void apply_override(google::protobuf::Message& message, FieldOrigins& origins, const std::string& assignment);

/// Merges text format over the message, as given to `--config_override`: single fields are replaced, lists grow.
/// throws ConfigError with all errors of the text
void merge_override(google::protobuf::Message& message, FieldOrigins& origins, const std::string& text);

}  // namespace osprey::config
