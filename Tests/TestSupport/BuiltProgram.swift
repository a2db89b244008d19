// SPDX-License-Identifier: Apache-2.0

package import Foundation

/// An executable built with the tests.
package enum BuiltProgram {
    struct NotBuilt: Error, CustomStringConvertible {
        let description: String
    }

    /// Finds an executable in the build directory, near the test bundle.
    package static func find(_ name: String) throws -> URL {
        var starts = [Bundle.main.bundleURL, URL(fileURLWithPath: ProcessInfo.processInfo.arguments[0])]
        starts += Bundle.allBundles.map(\.bundleURL)
        for start in starts {
            var folder = start
            for _ in 0..<5 {
                let candidate = folder.appendingPathComponent(name)
                var isFolder: ObjCBool = false
                if FileManager.default.fileExists(atPath: candidate.path, isDirectory: &isFolder), !isFolder.boolValue,
                    FileManager.default.isExecutableFile(atPath: candidate.path)
                {
                    return candidate
                }
                folder = folder.deletingLastPathComponent()
            }
        }
        throw NotBuilt(description: "no \(name) next to \(starts.map(\.path))")
    }
}
