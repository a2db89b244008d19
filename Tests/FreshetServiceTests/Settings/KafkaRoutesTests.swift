// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import TestSupport
import Testing

@testable import FreshetService

@Suite("The setting kafka.routes", .timeLimit(.patience))
struct KafkaRoutesTests {
    @Test("Routes are read from the environment and passed to the clients")
    func routes() throws {
        let environment = [
            "FRESHET_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:9092", "FRESHET_KAFKA_ROUTES": "41001=52001,41002=52002",
        ]
        let loaded = try LoadedSettings(environment: environment).checked()
        #expect(loaded.warnings.isEmpty)
        #expect(loaded.settings.namedKafka?.routes == [41_001: 52_001, 41_002: 52_002])
    }

    @Test("Values that are not pairs of ports are refused", arguments: ["41001", "x=1", "2=70000"])
    func problem(text: String) {
        #expect(throws: CommandFailure.self) {
            try LoadedSettings(environment: ["FRESHET_KAFKA_ROUTES": text]).checked()
        }
    }
}
