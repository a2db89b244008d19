// SPDX-License-Identifier: Apache-2.0

package import Foundation

extension Process {
    /// Starts the process and closes its files here: the child has descriptors of its own.
    ///
    /// Foundation keeps a process that has ended, with its files. With more than 1,335 open descriptors its `run` reads
    /// past the entries of `/proc/self/fd` and may crash (swift-corelibs-foundation, issue 5472).
    package func runAndCloseFiles() throws {
        try run()
        for case let file as FileHandle in [standardInput, standardOutput, standardError] { try? file.close() }
    }
}
