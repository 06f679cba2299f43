#pragma once
#include <optional>
#include <pugixml.hpp>
#include <string>

#include "osprey/data/annotations.h"

namespace osprey::data {

/// The object that an element of an <image> is, see `open_cvat`; nothing, counted, where it is no object with a box.
/// place  of the element, for messages
std::optional<AnnotatedObject> cvat_object(const pugi::xml_node& shape, const std::string& place, Problems& problems);

}  // namespace osprey::data
