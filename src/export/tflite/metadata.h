#pragma once
#include <cstdint>
#include <string>

#include "osprey/config/label_map.h"

namespace osprey::tflite {

// What libraries of applications (MediaPipe, TensorFlow Lite's Task Library) read from a file to use it without being
// told how.

/// The name under which a file holds this.
constexpr const char* kMetadataName = "TFLITE_METADATA";

/// How the input is normalised, and which output is what: the bytes of a ModelMetadata for a file of a detector, whose
/// outputs are boxes, classes, scores and their number, or of a classifier, which has scores alone. Names of classes
/// are in an attached file.
std::string detector_metadata();
std::string classifier_metadata();

/// Attaches the names of classes, a line for each, to a file on disk: as an archive behind its end, which readers of
/// the model do not see.
/// throws  DataError where the file cannot be written
void attach_labels(const std::string& path, const config::LabelMap& labels, int64_t num_classes);

}  // namespace osprey::tflite
