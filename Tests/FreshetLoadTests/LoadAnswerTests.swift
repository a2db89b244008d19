// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import WidgetModel

@testable import SampleProvider
@testable import freshet_load

@Suite("Answers of the sample provider in load tests", .timeLimit(.patience))
struct LoadAnswerTests {
    private let answer = LoadAnswer(now: Timestamp(microseconds: 1_790_000_000_000_000))

    private func body(_ ids: [String]) -> [UInt8] {
        let requests = ids.map {
            "{\"id\":\"\($0)\",\"kind\":\"Load1\",\"family\":\"systemSmall\",\"configuration\":{\"id\":\"no\"}}"
        }
        return Array("{\"requests\":[\(requests.joined(separator: ","))]}".utf8)
    }

    @Test("Answers are timelines that the workers accept, each different")
    func timelines() throws {
        let ids = [TimelineID(high: 1, low: 2), TimelineID(high: 3, low: 4)]
        let made = try #require(answer.answer(body(ids.map(\.description)), from: 7))
        #expect(made.kinds.map(\.name) == ["Load1"] && made.kinds.map(\.timelines) == [2])
        let outcomes = try ProviderResponse.parse(made.bytes, requested: ids.map { RequestedTimeline($0) }).outcomes
        let hashes = try outcomes.map { outcome in
            guard case .success(let parsed) = outcome else { throw Missing() }
            #expect(parsed.entryCount == 3)
            #expect((600...700).contains(parsed.content.count), "\(parsed.content.count) bytes")
            // The entry as the reader of the output topic sees it.
            let value = Array("{\"timeline\":\"x\",".utf8) + parsed.content.dropFirst()
            #expect(OutputWatch.hash(ofEntriesIn: value[...]) == parsed.hash)
            return parsed.hash
        }
        #expect(Set(hashes).count == 2)
        let later = try #require(answer.answer(body(ids.map(\.description)), from: 9))
        #expect(later.bytes != made.bytes)
    }

    @Test(
        "A request that cannot be parsed has no answer",
        arguments: [
            "", "{}", "[]", "{\"requests\":[]}", "{\"requests\":", "{\"requests\":[{\"id\":\"x\"}]}",
            "{\"requests\":[{\"kind\":\"x\"}]}",
        ])
    func malformed(text: String) {
        #expect(answer.answer(Array(text.utf8), from: 0)?.bytes == nil)
    }

    private struct Missing: Error {}
}
