# What every target of ours is compiled with; nothing here leaks into an installed target.
if(CMAKE_CXX_COMPILER_LAUNCHER STREQUAL "")
  unset(CMAKE_CXX_COMPILER_LAUNCHER)
endif()
if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(OSPREY_CCACHE ccache)
  if(OSPREY_CCACHE)
    # The precompiled header is hashed by its content; see "Precompiled headers" in ccache's manual.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${OSPREY_CCACHE})
  endif()
endif()

add_library(osprey_compile_options INTERFACE)
target_compile_options(osprey_compile_options INTERFACE -Wall -Wextra -Wshadow -Wno-unused-parameter
  # Left-out members of an options struct have their defaults.
  -Wno-missing-field-initializers
  # GCC 12 reports false positives inside the standard library.
  -Wno-maybe-uninitialized
  # Sources that are compiled together look like headers to GCC.
  -Wno-subobject-linkage
  $<$<BOOL:${OSPREY_WERROR}>:-Werror>)
if(OSPREY_SANITIZE)
  # Global, because a sanitizer has to see the whole program.
  # Without a look at the types behind pointers: libtorch keeps those of some of its classes to itself.
  add_compile_options(-fsanitize=${OSPREY_SANITIZE} -fno-sanitize=vptr -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${OSPREY_SANITIZE})
endif()
# Programs are compiled like the library, so that they can share its precompiled header.
set(CMAKE_CXX_COMPILE_OPTIONS_PIE ${CMAKE_CXX_COMPILE_OPTIONS_PIC})
