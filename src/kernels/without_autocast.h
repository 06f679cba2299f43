#pragma once
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace osprey::kernels {

/// While it lives, operations of libtorch compute in the types that they are given, autocast or not.
class WithoutAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard_{
      c10::DispatchKeySet({c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA})};
};

}  // namespace osprey::kernels
