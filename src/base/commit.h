#pragma once

namespace osprey {

/// That the sources were built from, as `Version::number`; empty where git does not say. cmake/WriteCommit.cmake writes
/// the definition.
const char* commit();

}  // namespace osprey
