#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace osprey::data {

/// What is done with links to folders; one to a file is that file in any case.
enum class Links { kFollowed, kPassedOver };

/// Calls with everything that is in a folder and below it, also in folders that links lead to, and with what it is, of
/// a link what that leads to. A folder that is reached in several ways is entered once, so that links in a ring end:
/// without a link where it can be, else through the link that is least deep, of those the first by name. Folders that
/// may not be read, and those below that are gone when they are entered or cannot be read, are passed over.
/// throws  std::filesystem::filesystem_error where `folder` is none
void for_each_below(const std::filesystem::path& folder,
                    const std::function<void(const std::filesystem::path&, std::filesystem::file_type)>& call,
                    Links links = Links::kFollowed);

/// The files among them that are wanted, in the order of their names; throws as above.
std::vector<std::string> files_below(const std::filesystem::path& folder,
                                     const std::function<bool(const std::filesystem::path&)>& is_wanted,
                                     Links links = Links::kFollowed);

}  // namespace osprey::data
