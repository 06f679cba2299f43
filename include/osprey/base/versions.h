#pragma once
#include <string>
#include <vector>

namespace osprey {

/// One of the things that a program is made of.
struct Version {
  std::string part;    ///< lower case, as a key of JSON
  std::string number;  ///< "2.11.0"; of the commit its hash, ending with "+changes" where files were other than in it
};

/// What --version and run_info.json say: osprey, commit, libtorch, cuda, cudnn, nccl, protobuf, opencv, in this order.
/// CUDA's libraries and OpenCV say which they are at run time. Left out is what there is none of: the commit where the
/// sources are not those of a git checkout, CUDA and its libraries where libtorch has none.
std::vector<Version> versions();

}  // namespace osprey
