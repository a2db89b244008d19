// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import JSON
import Synchronization
import TestSupport
import Testing
import WidgetModel

@testable import WidgetAPI

@Suite("Removed keys", .tags(.api), .timeLimit(.patience))
struct RemovedKeyTests {
    /// A key file that can be replaced.
    private final class KeyFile: Sendable {
        let bytes: Mutex<[UInt8]>

        init(_ tokens: TestTokens) { bytes = Mutex(tokens.jwks.encoded) }

        func store() -> TokenKeyStore {
            TokenKeyStore(logger: quiet) { self.bytes.withLock { $0 } }
        }
    }

    @Test("A removed key ends the streams and polls of its tokens at the next check; others continue")
    func ends() async throws {
        let tokens = try await TestTokens.make()
        let kept = try #require(tokens.jwks["keys"]?.arrayValue?.first { $0["kid"] == "es" })
        let file = KeyFile(tokens)
        let keys = file.store()
        let changes = TimelineChanges(patience: .milliseconds(50))
        changes.set(isLive: true)
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await store.saveContent(id, hash: 1)
            try await withAPI(store, changes: changes, tokens: tokens, keys: keys) { api in
                var headers = HTTPFields()
                headers[.ifNoneMatch] = "W/\"00000000-0000-0000-0000-000000000001\""
                let known = headers
                let other = TestAPI.Bearer.token(try await tokens.token(key: "es"))
                let (timeline, events) = ("\(TestAPI.base)/widgets/w1/timeline", "\(TestAPI.base)/devices/d1/events")
                async let stream = api.ask(.get, "\(events)?for=600")
                async let poll = api.ask(.get, "\(timeline)?wait=60", headers: known)
                async let otherPoll = api.ask(.get, "\(timeline)?wait=60", as: other, headers: known)
                // The stream has read its timelines once it wants those of their users.
                try await eventually("all polls and streams wait") { changes.counts == (2, 1) && changes.wantsUsers }

                let left: JSONValue = ["keys": [kept]]
                file.bytes.withLock { $0 = left.encoded }
                await keys.check()
                let ended = try await stream
                #expect(ended.status == 200 && ended.text.contains("event: timeline"))
                let refused = try await poll
                #expect(refused.status == 401 && refused.headers[.wwwAuthenticate] != nil, "\(refused.text)")
                #expect(changes.counts.polls == 1)

                try await store.saveContent(id, hash: 2)
                changes.notify([.timeline(id)])
                #expect(try await otherPoll.headers[.freshetRevision] == "2")
            }
        }
    }
}
