#pragma once
#include "tflite_schema_generated.h"

namespace osprey::tflite {

/// A model as it is written: without operations whose results nobody reads, without tensors, constants and kinds of
/// operations that none of the others uses, and with the version of each kind that what it does needs, by which old
/// runtimes know that they cannot run it.
ModelT finished(const ModelT& model);

}  // namespace osprey::tflite
