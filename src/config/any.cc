#include "config/any.h"

namespace osprey::config {

Opened open_any(const google::protobuf::Any& any) {
  Opened result;
  result.type = any.type_url().substr(any.type_url().rfind('/') + 1);
  const auto* type = google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(result.type);
  result.is_linked = type != nullptr;
  if (!result.is_linked) return result;
  result.message.reset(google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->New());
  if (!result.message->ParseFromString(any.value())) result.message.reset();
  return result;
}

}  // namespace osprey::config
