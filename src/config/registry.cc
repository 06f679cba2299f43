#include "osprey/config/registry.h"

#include <google/protobuf/any.pb.h>

namespace osprey::config {
namespace {

/// The message inside an Any, built from the descriptors linked into this program. It is kept for the life of the
/// program: nodes refer to it, and a config holds few of them.
const google::protobuf::Message& unpack(const Node& node, const google::protobuf::Any& any) {
  const std::string name = any.type_url().substr(any.type_url().rfind('/') + 1);
  const auto* descriptor = google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(name);
  if (descriptor == nullptr) node.fail("", "no message type '" + name + "' is linked into this program");
  static std::vector<std::unique_ptr<google::protobuf::Message>> unpacked;
  auto& message =
      unpacked.emplace_back(google::protobuf::MessageFactory::generated_factory()->GetPrototype(descriptor)->New());
  if (!message->ParseFromString(any.value())) node.fail("", "holds no valid " + name);
  return *message;
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
