#include "osprey/boxes/builder.h"

#include "osprey/protos/anchor_generator.pb.h"
#include "osprey/protos/box_coder.pb.h"

namespace osprey::boxes {

std::unique_ptr<BoxCoder> build_box_coder(const config::ConfigNode<proto::BoxCoder>& node) {
  return BoxCoder::Registry::instance().build(node, "box_coder_oneof");
}

std::unique_ptr<AnchorGenerator> build_anchor_generator(const config::ConfigNode<proto::AnchorGenerator>& node) {
  return AnchorGenerator::Registry::instance().build(node, "anchor_generator_oneof");
}

}  // namespace osprey::boxes
