import Foundation

/// Files of the repository that the tests stand in.
enum Repository {
    /// The path of a file; nil when there is none.
    static func path(_ relative: String, of file: String = #filePath) -> String? {
        var folder = URL(fileURLWithPath: file).resolvingSymlinksInPath().deletingLastPathComponent()
        while folder.path != "/" {
            let candidate = folder.appending(path: relative)
            if FileManager.default.fileExists(atPath: candidate.path) { return candidate.path }
            folder = folder.deletingLastPathComponent()
        }
        return nil
    }
}

/// A folder that is gone when the body is done.
enum TemporaryFolder {
    static func with<Result>(_ body: (URL) throws -> Result) throws -> Result {
        let folder = FileManager.default.temporaryDirectory.appending(path: "freshet-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        return try body(folder)
    }
}
