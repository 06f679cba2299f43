#pragma once
#include <google/protobuf/message.h>

#include <memory>
#include <string>
#include <string_view>

#include "osprey/config/node.h"
#include "osprey/config/source_map.h"

namespace osprey::config {

/// How deep messages may nest in a text; deeper ones are refused.
inline constexpr int kMaxNesting = 100;

/// A message read from text, with the place of every field that the text sets.
template <class M>
struct Parsed {
  std::shared_ptr<M> message;
  std::shared_ptr<FieldOrigins> sources;

  ConfigNode<M> node() const { return ConfigNode<M>(*message, "", sources); }
};

/// Merges protobuf text format into `message`.
///
/// text    any bytes; a byte order mark at its start is skipped
/// name    stands for the file in errors and origins
/// throws  ConfigError with one block per error, all errors of the text in one go: unknown fields and enum values
///         (with the nearest valid name), wrong types, numbers out of range, double fields, unbalanced braces, text
///         after a syntax error
std::shared_ptr<FieldOrigins> parse_into(google::protobuf::Message& message, std::string_view text,
                                         const std::string& name);

/// As above, for a new message: `parse<proto::FocalLoss>("gamma: 2", "test").node()`.
template <class M>
Parsed<M> parse(std::string_view text, const std::string& name = "text") {
  Parsed<M> result;
  result.message = std::make_shared<M>();
  result.sources = parse_into(*result.message, text, name);
  return result;
}

/// The bytes of a config file.
///
/// throws  ConfigError where it cannot be read, naming `what` ("pipeline config") and the reason
std::string read_config_file(const std::string& file, const std::string& what);

}  // namespace osprey::config
