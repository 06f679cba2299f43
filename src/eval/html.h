#pragma once
#include <string>
#include <string_view>

#include "base/utf8_text.h"

namespace osprey::eval {

/// Text that comes from data, such as a name or an id, for HTML: in an element or in an attribute between quotes.
inline std::string html_text(std::string_view text) {
  std::string safe;
  for (const char c : utf8_text(text)) switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        safe += c;
    }
  return safe;
}

}  // namespace osprey::eval
