#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "osprey/config/node.h"

namespace osprey::config {

/// The choice made in a oneof of `node`, as an untyped node; nothing where no member is set.
/// A member of type google.protobuf.Any (`custom`) is unpacked to the message inside.
std::optional<Node> chosen(const Node& node, const std::string& oneof);

/// The message inside a node of type google.protobuf.Any; any other node as it is.
/// throws ConfigError where the message's type is not linked into this program
Node unpacked(const Node& node);

/// All components of a family, by the full name of the message that configures them. Filled before main.
///
/// Args are what a component of this family is given beside its own message (num_classes and the like).
///
///     OSPREY_REGISTER(ClassificationLoss, &make);              // in the file of a loss
///     auto loss = build<ClassificationLoss>(node, "classification_loss");
template <class Component, class... Args>
class Registry {
 public:
  using Factory = std::function<std::unique_ptr<Component>(const Node&, Args...)>;

  static Registry& instance() {
    static Registry registry;
    return registry;
  }

  template <class M>
  bool add(std::unique_ptr<Component> (*make)(const ConfigNode<M>&, Args...)) {
    const std::string& name = M::descriptor()->full_name();
    if (!factories_
             .emplace(name, [make](const Node& node,
                                   Args... args) { return make(ConfigNode<M>(node), std::forward<Args>(args)...); })
             .second)
      throw std::logic_error("registered twice: " + name);
    return true;
  }

  /// Whether a component is configured by messages of this full name.
  bool has(const std::string& message_name) const { return factories_.count(message_name) > 0; }

  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : factories_) result.push_back(entry.first);
    return result;
  }

  /// Builds the component that is chosen in `oneof` of the parent message.
  /// throws ConfigError where nothing is chosen, or the choice is not built yet
  std::unique_ptr<Component> build(const Node& parent, const std::string& oneof, Args... args) const {
    std::optional<Node> choice = chosen(parent, oneof);
    if (!choice) parent.fail("", "no " + oneof + " is chosen");
    return build(*choice, std::forward<Args>(args)...);
  }
  /// Builds the component of a message directly.
  std::unique_ptr<Component> build(const Node& node, Args... args) const {
    auto found = factories_.find(node.message().GetDescriptor()->full_name());
    if (found == factories_.end()) node.unsupported("");
    return found->second(node, std::forward<Args>(args)...);
  }

 private:
  std::map<std::string, Factory> factories_;
};

/// The registry of a component family: a family names its extra arguments once, as `using Registry =
/// config::Registry<...>` inside the component's class.
#define OSPREY_REGISTER(Component, make) OSPREY_REGISTER_COUNTED(Component, make, __COUNTER__)
#define OSPREY_REGISTER_COUNTED(Component, make, number) OSPREY_REGISTER_AS(Component, make, number)
#define OSPREY_REGISTER_AS(Component, make, number) \
  [[maybe_unused]] static const bool osprey_registered_##number = Component::Registry::instance().add(make)

}  // namespace osprey::config
