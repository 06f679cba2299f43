# Finds the three OpenCV modules that Osprey uses and gives the imported target OspreyOpenCV::opencv; also
# OspreyOpenCV::videoio, for the program detect, where that module is installed.
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
find_library(OSPREY_OPENCV_videoio_LIBRARY opencv_videoio)
find_file(OSPREY_OPENCV_VIDEOIO_HEADER opencv2/videoio.hpp HINTS ${OSPREY_OPENCV_INCLUDE_DIR})
if(OspreyOpenCV_FOUND AND OSPREY_OPENCV_videoio_LIBRARY AND OSPREY_OPENCV_VIDEOIO_HEADER AND NOT TARGET OspreyOpenCV::videoio)
  add_library(OspreyOpenCV::videoio INTERFACE IMPORTED)
  target_link_libraries(OspreyOpenCV::videoio INTERFACE OspreyOpenCV::opencv ${OSPREY_OPENCV_videoio_LIBRARY})
endif()
mark_as_advanced(OSPREY_OPENCV_INCLUDE_DIR OSPREY_OPENCV_VIDEOIO_HEADER)
