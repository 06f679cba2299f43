# cmake -DSOURCE=DIR -DOUTPUT=FILE -P WriteCommit.cmake writes the function commit() of src/base/commit.h. A file that says it already is not
# touched, so that only another commit, or the first change to it, compiles and links anything.
cmake_minimum_required(VERSION 3.25)
set(commit "")
find_package(Git QUIET)
if(Git_FOUND AND EXISTS ${SOURCE}/.git)  # sources without one may lie inside another project's repository
  execute_process(COMMAND ${GIT_EXECUTABLE} --no-optional-locks -C ${SOURCE} describe --always --exclude=* --abbrev=12 --dirty=+changes
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT "#include \"base/commit.h\"
const char* osprey::commit() { return \"@commit@\"; }
")
