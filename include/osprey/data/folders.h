#pragma once
#include <memory>
#include <string>

#include "osprey/data/annotations.h"

namespace osprey::data {

struct FoldersOptions {
  std::string input;  ///< folder of the folders of classes
  std::string split;  ///< list of the names (with or without folders and endings) to use; "" for all
};

/// Pictures that are sorted into one folder for each class, as ImageNet and torchvision's ImageFolder have them: data
/// of classifiers. The object of a picture is the whole picture.
///
/// A class is a folder in `input` that has pictures, itself or below it, and is called like it. Classes of a new label
/// map are numbered in the order of their names' bytes. Pictures that lie in `input` itself belong to no class: they
/// are left out, counted, and so are hidden ones, whose name or folder begins with a dot. What links make two folders
/// of one is the class that is no link.
///
/// throws DataError: no such folder, no folder of pictures in it, a split that names no picture
std::unique_ptr<AnnotationSource> open_folders(const FoldersOptions& options, Problems& problems);

}  // namespace osprey::data
