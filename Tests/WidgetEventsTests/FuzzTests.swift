// SPDX-License-Identifier: Apache-2.0

import Fuzzing
import TestSupport
import Testing

/// A short run of the fuzzer; `deploy/local/test --fuzz` is the long one.
@Suite("Broken input", .tags(.property), .timeLimit(.patience))
struct FuzzTests {
    /// Folder of the repository, two levels above this file's.
    private static let root = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3)
        .joined(separator: "/")

    @Test("Broken input is refused without a crash, and valid input is accepted", arguments: FuzzTarget.allCases)
    func short(target: FuzzTarget) throws {
        let fuzzer = Fuzzer(corpus: try Corpus(root: Self.root), seed: 2026)
        let count = [.manifest, .intents].contains(target) ? 300 : 1_500
        var accepted = 0
        for number in 0..<count {
            do {
                if try fuzzer.run(target, number).isAccepted { accepted += 1 }
            } catch {
                Issue.record("--seed 2026 --target \(target.rawValue) --from \(number): \(error)")
                return
            }
        }
        #expect(accepted > count / 100 && accepted < count, "\(accepted) of \(count) were accepted")
    }

    @Test("A seed gives the same input each time") func repeatable() throws {
        let corpus = try Corpus(root: Self.root)
        let (one, other) = (Fuzzer(corpus: corpus, seed: 7), Fuzzer(corpus: corpus, seed: 7))
        for number in 0..<100 {
            #expect(try one.run(.json, number).bytes == other.run(.json, number).bytes)
        }
        #expect(!corpus.events.isEmpty && !corpus.manifests.isEmpty && corpus.provider.count >= 3)
    }
}
