#pragma once
#include <string>
#include <string_view>

namespace osprey {

/// A text for readers that take UTF-8 only: bytes that are none, as names in label maps and ids in records may have
/// them, become U+FFFD.
std::string utf8_text(std::string_view text);

}  // namespace osprey
