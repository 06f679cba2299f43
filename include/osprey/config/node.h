#pragma once
#include <google/protobuf/message.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "osprey/base/error.h"

namespace osprey::protos {}

namespace osprey {
namespace proto = ::osprey::protos;
}

namespace osprey::config {

/// Where the value of a field was written.
struct Origin {
  enum class Kind { kDefault, kFile, kOverride };
  Kind kind = Kind::kDefault;
  std::string source;  ///< file name, or the text of the override ("--set model.ssd.num_classes=3")
  int line = 0;        ///< from 1; 0 where there is none
  int column = 0;      ///< from 1
  std::string text;    ///< the source line, without its end
};

/// Remembers where each field of a config came from. Paths are dotted, with list indices:
/// "eval_input_reader[0].shuffle".
class SourceMap {
 public:
  virtual ~SourceMap() = default;
  /// The origin of a field, or of the nearest enclosing message that was written; kDefault where none was.
  virtual Origin origin(std::string_view path) const = 0;
};

/// One finding as it is shown: "file:line:column: path: message", the source line and a caret under the column; without
/// a file, the override or the path alone stands in front.
std::string describe(const Origin& origin, std::string_view path, std::string_view message);

/// A message of the config, untyped, that knows its path and origin. A component's `make` receives a typed one.
class Node {
 public:
  Node(const google::protobuf::Message& message, std::string path, std::shared_ptr<const SourceMap> sources)
      : message_(&message), path_(std::move(path)), sources_(std::move(sources)) {}

  const google::protobuf::Message& message() const { return *message_; }
  const std::string& path() const { return path_; }
  const std::shared_ptr<const SourceMap>& sources() const { return sources_; }

  /// "path.field", or "field" at the root; the path itself where `field` is empty.
  std::string path_of(std::string_view field) const;

  /// Throws a ConfigError for a field of this message (for the message itself where `field` is empty):
  /// "file:line:column: path.field: message", then the source line and a caret.
  [[noreturn]] void fail(std::string_view field, const std::string& message) const;

  /// Ends with "... is not supported yet: path.field": for a valid choice that is not built.
  [[noreturn]] void unsupported(std::string_view field) const;

 private:
  const google::protobuf::Message* message_;
  std::string path_;
  std::shared_ptr<const SourceMap> sources_;
};

/// A typed node: `node->field()` reads the message. The message must outlive the node.
template <class M>
class ConfigNode : public Node {
 public:
  ConfigNode(const M& message, std::string path = "", std::shared_ptr<const SourceMap> sources = nullptr)
      : Node(message, std::move(path), std::move(sources)) {}
  /// The typed view of a node whose message is an M.
  explicit ConfigNode(const Node& node) : Node(node) {
    if (dynamic_cast<const M*>(&node.message()) == nullptr) throw std::logic_error("config node holds another message");
  }

  const M& operator*() const { return static_cast<const M&>(message()); }
  const M* operator->() const { return static_cast<const M*>(&message()); }

  /// The node of a message field: `node.child("optimizer", node->optimizer())`.
  template <class Child>
  ConfigNode<Child> child(std::string_view field, const Child& message) const {
    return ConfigNode<Child>(message, path_of(field), sources());
  }
  /// The node of element `index` of a repeated message field.
  template <class Child>
  ConfigNode<Child> child(std::string_view field, int index, const Child& message) const {
    return ConfigNode<Child>(message, path_of(field) + "[" + std::to_string(index) + "]", sources());
  }
};

}  // namespace osprey::config
