import Foundation

/// Files of the repository that has the tests.
package enum Repository {
    /// Path of a file; nil if there is none.
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
