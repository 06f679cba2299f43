# Finds the three OpenCV modules that Osprey uses and gives the imported target OspreyOpenCV::opencv.
# OpenCV's own package file comes with Debian's libopencv-dev only, which pulls in all modules and their dependencies.
find_path(OSPREY_OPENCV_INCLUDE_DIR opencv2/core.hpp PATH_SUFFIXES opencv4)
foreach(module core imgproc imgcodecs)
  find_library(OSPREY_OPENCV_${module}_LIBRARY opencv_${module})
endforeach()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OspreyOpenCV REQUIRED_VARS
  OSPREY_OPENCV_INCLUDE_DIR OSPREY_OPENCV_core_LIBRARY OSPREY_OPENCV_imgproc_LIBRARY OSPREY_OPENCV_imgcodecs_LIBRARY)
if(OspreyOpenCV_FOUND AND NOT TARGET OspreyOpenCV::opencv)
  add_library(OspreyOpenCV::opencv INTERFACE IMPORTED)
  target_include_directories(OspreyOpenCV::opencv INTERFACE ${OSPREY_OPENCV_INCLUDE_DIR})
  target_link_libraries(OspreyOpenCV::opencv INTERFACE
    ${OSPREY_OPENCV_core_LIBRARY} ${OSPREY_OPENCV_imgproc_LIBRARY} ${OSPREY_OPENCV_imgcodecs_LIBRARY})
endif()
mark_as_advanced(OSPREY_OPENCV_INCLUDE_DIR)
