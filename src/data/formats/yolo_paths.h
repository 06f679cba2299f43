#pragma once
#include <string>
#include <vector>

namespace osprey::data {

/// The file that a YOLO data set calls so: below one of the folders, or, as lists of other machines ("data/a.jpg",
/// "/home/me/set/a.jpg", "C:\set\a.jpg") need it, what is left of the path after its first parts. "" where there is
/// none.
std::string find_yolo_file(const std::string& spelled, const std::vector<std::string>& folders);

/// The folder or list (.txt) of a split. Of a folder's path only leading ".." and what stands before a data set that
/// has moved are dropped, and never down to `images` alone, which may be those of any split. "" where there is none.
std::string find_yolo_place(const std::string& spelled, const std::vector<std::string>& folders);

/// Where the labels of a picture may be: where `labels` stands for the last `images` of its path, then beside it.
std::vector<std::string> label_files(const std::string& picture);

}  // namespace osprey::data
