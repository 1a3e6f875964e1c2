// The report of one or several runs: one HTML page that explains itself, loads nothing, and can be sent by mail.
//
// It holds what was run, a table, the loss over seconds, steps and bytes, the pipeline where there is one, a timeline
// of each run, where the time went, how far the replicas were apart, what each strategy does, and how to do it again.
// What a run has not recorded is left out. The page depends on the files alone: the same runs give the same page.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace thinwire::report {

struct Options {
  std::string title = "Thinwire report";  // of the browser's tab
};

// `runs`: run directories, or directories of `thinwire compare`. BadInput names the file that is missing or damaged; a
// run without result.json is shown as far as it got.
std::string html(const std::vector<std::filesystem::path>& runs, const Options& options = {});

// html() into a file, by write_file(): a reader never sees half a page, and what is not a plain file is not replaced.
// BadInput, or std::system_error with path and reason.
void write(const std::filesystem::path& path, const std::vector<std::filesystem::path>& runs,
           const Options& options = {});

}  // namespace thinwire::report
