#include "train/device_group.h"

#include <chrono>

#include "osprey/base/error.h"

#ifdef USE_C10D_NCCL
#include <c10/util/Logging.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace osprey::train {

#ifdef USE_C10D_NCCL
c10::intrusive_ptr<c10d::Backend> make_device_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                    const ReplicaPlace& place, double seconds) {
  // Where a replica is lost NCCL's watchdog ends this process; why, stands in its log only.
  FLAGS_caffe2_log_level = c10::GLOG_WARNING;
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(c10::make_intrusive<c10d::PrefixStore>("nccl", store),
                                                     static_cast<int>(place.rank), static_cast<int>(place.size),
                                                     options);
}
#else
c10::intrusive_ptr<c10d::Backend> make_device_group(const c10::intrusive_ptr<c10d::Store>&, const ReplicaPlace&,
                                                    double) {
  throw ConfigError("replicas on GPUs need a libtorch with CUDA and NCCL; this build has neither");
}
#endif

}  // namespace osprey::train
