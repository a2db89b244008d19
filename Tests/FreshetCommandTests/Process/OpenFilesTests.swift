// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

@Suite(.tags(.process), .timeLimit(.patience))
struct OpenFilesTests {
    @Test("A process that the tests started leaves no open files in this process")
    func closed() async throws {
        let process = try FreshetProcess(["--version"])
        _ = try await process.end()
        let descriptors = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd")
        let open = descriptors.compactMap {
            try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")
        }
        #expect(!open.isEmpty && !open.contains { $0.contains(process.folder.lastPathComponent) })
    }
}
