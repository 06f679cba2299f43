#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace osprey {

/// The candidate closest to `name` by edit distance (a swap of neighbours counts as one edit); "" where none is close
/// enough to be meant: more than a third of the name's characters, and more than two, would have to change. A candidate
/// that begins or ends with a name of at least four characters counts as two edits away. Ties go to the first.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

/// "; did you mean \"candidate\"?" for the end of a message that quotes the name, or "" where none is close.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace osprey
