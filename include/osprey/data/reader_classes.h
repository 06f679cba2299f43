#pragma once
#include "osprey/config/pipeline.h"

namespace osprey::data {

/// Gives every annotation_input_reader that has neither label_map_path nor label_map the label map of
/// train_input_reader; where that has none, one of the classes in its annotations, numbered as create_records does.
/// Then `config::derive_num_classes`. So a saved config holds the classes that the run had, whatever is annotated
/// later.
///
/// Annotations that are not there are passed over, as placeholders are, where num_classes is set: whoever reads them
/// says so.
///
/// throws  ConfigError for a label map that is none, and for annotations of an evaluation whose training has not said
///         its classes; DataError for annotations that cannot be read, have no objects or are not there
void derive_classes(config::Pipeline& pipeline);

}  // namespace osprey::data
