#include "osprey/base/versions.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <google/protobuf/stubs/common.h>
#include <torch/version.h>

#include <opencv2/core/utility.hpp>

#include "base/commit.h"

namespace osprey {
namespace {

/// major * 10000 + minor * 100 + patch, as cuDNN and NCCL have it.
std::string three_numbers(long version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

/// 0 where no NCCL is loaded. It comes with libtorch, its header not always.
long nccl_version() {
  using GetVersion = int (*)(int*);
  const auto get = reinterpret_cast<GetVersion>(::dlsym(RTLD_DEFAULT, "ncclGetVersion"));
  int version = 0;
  return get != nullptr && get(&version) == 0 ? version : 0;
}

}  // namespace

std::vector<Version> versions() {
  std::vector<Version> result{{"osprey", OSPREY_VERSION}};
  if (*commit() != '\0') result.push_back({"commit", commit()});
  result.push_back({"libtorch", TORCH_VERSION});
  const at::CUDAHooksInterface& cuda = at::detail::getCUDAHooks();
  if (cuda.hasCUDART()) {
    const long runtime = cuda.versionCUDART();
    result.push_back({"cuda", fmt::format("{}.{}", runtime / 1000, runtime / 10 % 100)});
  }
  if (cuda.compiledWithCuDNN()) result.push_back({"cudnn", three_numbers(cuda.versionRuntimeCuDNN())});
  if (const long nccl = nccl_version(); nccl > 0) result.push_back({"nccl", three_numbers(nccl)});
  result.push_back({"protobuf", google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION)});
  result.push_back({"opencv", cv::getVersionString()});
  return result;
}

}  // namespace osprey
