#pragma once
#include <memory>

#include "osprey/boxes/anchor_generator.h"
#include "osprey/boxes/box_coder.h"
#include "osprey/boxes/post_processing.h"
#include "osprey/config/node.h"

namespace osprey::protos {
class AnchorGenerator;
class BatchNonMaxSuppression;
class BoxCoder;
class PostProcessing;
}  // namespace osprey::protos

/// The builders of this room. All throw ConfigError with file, line and field for a value out of range or a choice that
/// is missing or not built yet.
namespace osprey::boxes {

/// The coder chosen in `box_coder_oneof`.
std::unique_ptr<BoxCoder> build_box_coder(const config::ConfigNode<proto::BoxCoder>& node);

/// The generator chosen in `anchor_generator_oneof`.
std::unique_ptr<AnchorGenerator> build_anchor_generator(const config::ConfigNode<proto::AnchorGenerator>& node);

/// Thresholds and limits of the suppression.
NmsOptions build_nms_options(const config::ConfigNode<proto::BatchNonMaxSuppression>& node);

/// Score conversion, calibration and suppression.
PostProcessor build_post_processor(const config::ConfigNode<proto::PostProcessing>& node);

}  // namespace osprey::boxes
