// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import WidgetModel

@testable import ReloadWorkers

@Suite(.timeLimit(.patience))
struct RestingEndpointsTests {
    private let bank = ProviderKey(appID: 1, app: "a", url: "http://bank")
    private let other = ProviderKey(appID: 2, app: "a", url: "http://bank")
    private let broken = ProviderFailure(.timeout, "no answer")

    private func absent(_ status: Int) -> ProviderFailure { ProviderFailure(.status, "no", status: status) }

    @Test(arguments: [404, 405, 501])
    func aProviderWithoutTheEndpointIsNotAskedForLong(status: Int) {
        let endpoints = RestingEndpoints()
        endpoints.recordFailure(absent(status), .snapshot, of: bank, at: .seconds(5), absence: .seconds(600))
        #expect(endpoints.isResting(.snapshot, of: bank, at: .seconds(604)))
        #expect(!endpoints.isResting(.snapshot, of: bank, at: .seconds(605)))
        #expect(!endpoints.isResting(.placeholder, of: bank, at: .seconds(5)), "another endpoint")
        #expect(!endpoints.isResting(.snapshot, of: other, at: .seconds(5)), "another app's")
    }

    @Test func otherFailuresRestLongerEachTimeUntilOneSucceeds() {
        let endpoints = RestingEndpoints()
        var rests: [Duration] = []
        for _ in 0..<12 {
            endpoints.recordFailure(broken, .snapshot, of: bank, at: .zero, absence: .seconds(600))
            rests.append(.seconds((0...601).first { !endpoints.isResting(.snapshot, of: bank, at: .seconds($0)) } ?? 0))
        }
        #expect(rests.prefix(4) == [.seconds(1), .seconds(2), .seconds(4), .seconds(8)])
        #expect(rests.last == .seconds(600))
        endpoints.recordSuccess(.snapshot, of: bank)
        #expect(!endpoints.isResting(.snapshot, of: bank, at: .zero))
        endpoints.recordFailure(broken, .snapshot, of: bank, at: .zero, absence: .seconds(600))
        #expect(!endpoints.isResting(.snapshot, of: bank, at: .seconds(1)))
        let asked = ProviderFailure(.status, "busy", retryAfter: .seconds(30), status: 429)
        endpoints.recordFailure(asked, .snapshot, of: other, at: .zero, absence: .seconds(600))
        #expect(endpoints.isResting(.snapshot, of: other, at: .seconds(29)))
        #expect(!endpoints.isResting(.snapshot, of: other, at: .seconds(30)))
    }

    @Test func onlySoManyAreRemembered() {
        let endpoints = RestingEndpoints(capacity: 10)
        let keys = (0..<100).map { ProviderKey(appID: Int32($0), app: "a", url: "http://p") }
        for (index, key) in keys.enumerated() {
            endpoints.recordFailure(absent(404), .snapshot, of: key, at: .seconds(index), absence: .seconds(600))
        }
        let resting = keys.filter { endpoints.isResting(.snapshot, of: $0, at: .seconds(99)) }
        #expect(resting == Array(keys.suffix(10)))
    }
}
