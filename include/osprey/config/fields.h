#pragma once
#include <google/protobuf/message.h>

#include <functional>
#include <string>

namespace osprey::config {

/// One value that is set in a config.
struct FieldValue {
  std::string path;                         ///< "train_config.batch_size", "eval_input_reader[0]"
  const google::protobuf::Message* parent;  ///< the message that holds it; valid during the visit
  const google::protobuf::FieldDescriptor* field;
  int index;  ///< element of a list, -1 for a single field

  bool is_message() const { return field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE; }
  /// The message that is the value. Precondition: is_message().
  const google::protobuf::Message& message() const;
  /// The value as text format writes it: 0.5, "path", RELU_6, true.
  std::string text() const;
};

/// Visits every set field, elements of lists one by one, a message before its fields, in the order of the schema, the
/// entries of a map in the order of their keys.
/// What an Any holds is visited as if it stood in its place; an Any of a type that is not linked in is not entered.
void visit_fields(const google::protobuf::Message& message, const std::function<void(const FieldValue&)>& visit,
                  const std::string& path = "");

}  // namespace osprey::config
