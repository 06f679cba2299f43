#pragma once
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace osprey::config {

/// All components of a family that share one message and are told apart by a name in it, such as the `type` of a
/// feature extractor. Filled before main.
///
///     OSPREY_REGISTER_TYPE(FeatureExtractor, "ssd_mobilenet_v1", &make);   // in the file of a component
template <class Component, class... Args>
class TypeRegistry {
 public:
  using Factory = std::function<std::unique_ptr<Component>(Args...)>;

  static TypeRegistry& instance() {
    static TypeRegistry registry;
    return registry;
  }

  bool add(const std::string& type, Factory make) {
    if (!factories_.emplace(type, std::move(make)).second) throw std::logic_error("registered twice: " + type);
    return true;
  }

  bool has(const std::string& type) const { return factories_.count(type) > 0; }

  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const auto& entry : factories_) result.push_back(entry.first);
    return result;
  }

  /// throws std::out_of_range where `has(type)` is false
  std::unique_ptr<Component> build(const std::string& type, Args... args) const {
    return factories_.at(type)(std::forward<Args>(args)...);
  }

 private:
  std::map<std::string, Factory> factories_;
};

#define OSPREY_REGISTER_TYPE_JOIN(a, b) a##b
#define OSPREY_REGISTER_TYPE_NAME(a, b) OSPREY_REGISTER_TYPE_JOIN(a, b)
/// Several types may be registered in one file; a family names its arguments once, as `using Types =
/// TypeRegistry<...>`.
#define OSPREY_REGISTER_TYPE(Component, type, make)                                         \
  [[maybe_unused]] static const bool OSPREY_REGISTER_TYPE_NAME(osprey_type_, __COUNTER__) = \
      Component::Types::instance().add(type, make)

}  // namespace osprey::config
