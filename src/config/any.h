#pragma once
#include <google/protobuf/any.pb.h>

#include <memory>
#include <string>

namespace osprey::config {

/// What an Any holds.
struct Opened {
  std::string type;                                    ///< full name of the message
  bool is_linked = false;                              ///< whether this program has the type
  std::unique_ptr<google::protobuf::Message> message;  ///< null where it has not, or the bytes are no such message
};

Opened open_any(const google::protobuf::Any& any);

}  // namespace osprey::config
