# Finds libtorch as it comes in the wheel and gives the imported target OspreyTorch::torch.
# Searched in this order: -DOSPREY_LIBTORCH=DIR (a folder that holds torch/ or include/ and lib/), CMAKE_PREFIX_PATH,
# OSPREY_LIBTORCH_HINT (third_party/libtorch of the source tree).
# libtorch's include root also carries old copies of protobuf and fmt, so it is searched after everything else (-idirafter).
# The TorchConfig.cmake beside it is not used: it insists on a CUDA toolkit and adds architecture flags of its own.
find_path(OSPREY_TORCH_INCLUDE_DIR ATen/ATen.h
  HINTS ${OSPREY_LIBTORCH} ${OSPREY_LIBTORCH}/torch ${CMAKE_PREFIX_PATH} ${OSPREY_LIBTORCH_HINT}/torch
  PATH_SUFFIXES include NO_DEFAULT_PATH)
find_path(OSPREY_TORCH_INCLUDE_DIR ATen/ATen.h PATH_SUFFIXES include)
get_filename_component(osprey_torch_root "${OSPREY_TORCH_INCLUDE_DIR}" DIRECTORY)
foreach(library torch torch_cpu c10)
  find_library(OSPREY_${library}_LIBRARY ${library} HINTS ${osprey_torch_root}/lib NO_DEFAULT_PATH)
endforeach()
foreach(library torch_cuda c10_cuda)  # present in CUDA set-ups only
  find_library(OSPREY_${library}_LIBRARY ${library} HINTS ${osprey_torch_root}/lib NO_DEFAULT_PATH)
endforeach()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OspreyTorch
  REQUIRED_VARS OSPREY_TORCH_INCLUDE_DIR OSPREY_torch_LIBRARY OSPREY_torch_cpu_LIBRARY OSPREY_c10_LIBRARY
  REASON_FAILURE_MESSAGE "libtorch was not found: run scripts/setup.sh, or pass -DOSPREY_LIBTORCH=DIR")

if(OspreyTorch_FOUND AND NOT TARGET OspreyTorch::torch)
  add_library(OspreyTorch::torch INTERFACE IMPORTED)
  target_compile_options(OspreyTorch::torch INTERFACE
    "SHELL:-idirafter ${OSPREY_TORCH_INCLUDE_DIR}" "SHELL:-idirafter ${OSPREY_TORCH_INCLUDE_DIR}/torch/csrc/api/include")
  target_link_libraries(OspreyTorch::torch INTERFACE ${OSPREY_torch_cpu_LIBRARY} ${OSPREY_c10_LIBRARY})
  # libtorch_cpu names its CUDA runtime libraries by an rpath of its own, which the linker does not follow.
  target_link_options(OspreyTorch::torch INTERFACE -Wl,--allow-shlib-undefined -Wl,-rpath,${osprey_torch_root}/lib)
  if(OSPREY_torch_cuda_LIBRARY AND OSPREY_c10_cuda_LIBRARY)
    # Nothing calls into libtorch_cuda by name; it registers itself when loaded.
    target_link_options(OspreyTorch::torch INTERFACE
      "SHELL:-Wl,--no-as-needed ${OSPREY_torch_cuda_LIBRARY} ${OSPREY_c10_cuda_LIBRARY} -Wl,--as-needed")
  endif()
endif()
mark_as_advanced(OSPREY_TORCH_INCLUDE_DIR)
