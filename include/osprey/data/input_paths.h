#pragma once
#include <string>
#include <vector>

namespace osprey::data {

/// The files behind a list of input paths, each path's files in alphabetical order.
///
/// A path may be a file, a pattern with `?`, `*` and `[..]`, or `name@N`, which stands for the N shards
/// `name-00000-of-0000N` ... An existing file is taken by its name even if that looks like a pattern. A file that two
/// paths name is taken once.
///
/// reader  how messages call the list: "train_input_reader"
/// throws  DataError "train_input_reader: 0 files match '...'", for every path that matches nothing; also for a
///         placeholder (PATH_TO_BE_CONFIGURED) and for a directory
std::vector<std::string> expand_input_paths(const std::vector<std::string>& paths, const std::string& reader);

/// What to say where files are only some of the shards of a set, "name-00000-of-00003": that others lie beside them, or
/// are not there; empty where they are all or have no such names. A set may lie in several folders, and count from 1.
std::string unread_shards(const std::vector<std::string>& files);

}  // namespace osprey::data
