// SPDX-License-Identifier: Apache-2.0

package import Foundation

extension Process {
    /// Starts the process and closes its files here: the child has descriptors of its own.
    ///
    /// Foundation keeps a process that has ended, with its files. With more than 1,335 open descriptors its `run` reads
    /// past the entries of `/proc/self/fd` and may crash (swift-corelibs-foundation, issue 5472).
    ///
    /// The child takes signals: it inherits the mask of this thread, and threads of tasks block all of them.
    package func runAndCloseFiles() throws {
        var (all, own) = (sigset_t(), sigset_t())
        sigfillset(&all)
        pthread_sigmask(SIG_UNBLOCK, &all, &own)
        defer { pthread_sigmask(SIG_SETMASK, &own, nil) }
        try run()
        // The standard input of a child is this process's own by default.
        for case let file as FileHandle in [standardInput, standardOutput, standardError]
        where file.fileDescriptor > STDERR_FILENO {
            try? file.close()
        }
    }
}
