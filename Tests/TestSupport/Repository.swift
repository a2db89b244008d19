// SPDX-License-Identifier: Apache-2.0

import Foundation

/// Files of this repository.
package enum Repository {
    /// Returns the path of a file; nil if the file does not exist.
    package static func path(_ relative: String, of file: String = #filePath) -> String? {
        var folder = URL(fileURLWithPath: file).resolvingSymlinksInPath().deletingLastPathComponent()
        while folder.path != "/" {
            let candidate = folder.appending(path: relative)
            if FileManager.default.fileExists(atPath: candidate.path) { return candidate.path }
            folder = folder.deletingLastPathComponent()
        }
        return nil
    }
}
