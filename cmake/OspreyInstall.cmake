# `cmake --install` gives programs, library, headers and a package for find_package(Osprey).
include(CMakePackageConfigHelpers)
# An installed program or library finds libosprey beside it and libtorch where it was found at build time.
set_target_properties(osprey PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS osprey EXPORT OspreyTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT OspreyTargets NAMESPACE osprey:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Osprey)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_BINARY_DIR}/proto/osprey DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.pb.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/proto/osprey DESTINATION ${CMAKE_INSTALL_DATADIR}/osprey/proto FILES_MATCHING PATTERN "*.proto")
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/OspreyConfig.cmake.in ${PROJECT_BINARY_DIR}/OspreyConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Osprey)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/OspreyConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/OspreyConfig.cmake ${PROJECT_BINARY_DIR}/OspreyConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindOspreyTorch.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Osprey)
