#include "osprey/config/registry.h"

#include "config/any.h"

namespace osprey::config {
namespace {

/// The message inside an Any, built from the descriptors linked into this program. It is kept for the life of the
/// program: nodes refer to it, and a config holds few of them.
const google::protobuf::Message& unpack(const Node& node, const google::protobuf::Any& any) {
  Opened opened = open_any(any);
  if (!opened.is_linked) node.fail("", "no message type '" + opened.type + "' is linked into this program");
  if (opened.message == nullptr) node.fail("", "holds no valid " + opened.type);
  static std::vector<std::unique_ptr<google::protobuf::Message>> kept;
  return *kept.emplace_back(std::move(opened.message));
}

}  // namespace

std::optional<Node> chosen(const Node& node, const std::string& oneof) {
  const google::protobuf::Message& message = node.message();
  const auto* descriptor = message.GetDescriptor()->FindOneofByName(oneof);
  if (descriptor == nullptr) throw std::logic_error(message.GetTypeName() + " has no oneof " + oneof);
  const auto* field = message.GetReflection()->GetOneofFieldDescriptor(message, descriptor);
  if (field == nullptr) return std::nullopt;
  Node choice(message.GetReflection()->GetMessage(message, field), node.path_of(field->name()), node.sources());
  return unpacked(choice);
}

Node unpacked(const Node& node) {
  const auto* any = dynamic_cast<const google::protobuf::Any*>(&node.message());
  return any == nullptr ? node : Node(unpack(node, *any), node.path(), node.sources());
}

}  // namespace osprey::config
