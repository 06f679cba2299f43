#pragma once
#include <memory>

#include "osprey/config/node.h"
#include "osprey/data/example_decoder.h"
#include "osprey/protos/input_reader.pb.h"

namespace osprey::data {

/// What an `input_reader` message says about decoding.
/// num_classes  of the model; 0: the label map decides
/// throws       ConfigError for what is not built yet (context features, track ids, dense pose, keypoint depth, more
///              channels, sequence examples, label hierarchies) and for values out of range
DecoderOptions decoder_options(const config::ConfigNode<proto::InputReader>& reader, int64_t num_classes);

/// The decoder with these options; throws as above.
/// label_map  may be null
std::unique_ptr<ExampleDecoder> build_example_decoder(const config::ConfigNode<proto::InputReader>& reader,
                                                      int64_t num_classes,
                                                      std::shared_ptr<const config::LabelMap> label_map);

}  // namespace osprey::data
