#pragma once
#include <c10/core/Device.h>

#include <string>

namespace osprey::kernels {

/// The device that the flag --device of the programs names, which from here on is the present one of this thread.
/// name    cpu, cuda or cuda:<n>
/// throws  ConfigError for another name, for a GPU that is not there, and for any GPU where this build has no kernels
///         for them
at::Device named_device(const std::string& name);

}  // namespace osprey::kernels
