#pragma once
#include <google/protobuf/descriptor.h>

#include <string>
#include <string_view>

#include "config/lexer.h"

namespace osprey::config {

/// A text as text format writes it: in quotes, with escapes for quotes, backslashes and control characters.
std::string string_literal(std::string_view text);

/// A token as errors quote it: shortened, and "the end of the text" for the last one.
std::string shown(const Token& token);

/// What a field takes, with its article: "an integer", "true or false", "a string", "a value of ResizeType", "a
/// message".
std::string kind_of(const google::protobuf::FieldDescriptor* field);

/// What is wrong with a token as the value of a scalar field, or "".
std::string scalar_problem(const google::protobuf::FieldDescriptor* field, const Token& value, bool negative);

}  // namespace osprey::config
