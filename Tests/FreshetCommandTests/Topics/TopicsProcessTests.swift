// SPDX-License-Identifier: Apache-2.0

import JSON
import KafkaClient
import TestSupport
import Testing
import WidgetModel

@Suite(.tags(.process), .timeLimit(.patience)) struct TopicsProcessTests {
    @Test("`topics check` reports differences and changes nothing")
    func check() async throws {
        let topics = [
            "freshet.pushes", "freshet.app-changes", "freshet.widgets", "freshet.dead-letters", "freshet.donations",
            "freshet.suggestions",
        ]
        try await withKafka(topics: topics + ["freshet.other"], partitions: 4) { kafka in
            let environment = [
                "FRESHET_KAFKA_BOOTSTRAP_SERVERS": kafka.configuration.bootstrapServers,
                "FRESHET_TOPICS_PUSHES": kafka.name(topics[0]), "FRESHET_TOPICS_APP_CHANGES": kafka.name(topics[1]),
                "FRESHET_TOPICS_WIDGETS": kafka.name(topics[2]), "FRESHET_TOPICS_DEAD_LETTERS": kafka.name(topics[3]),
                "FRESHET_TOPICS_DONATIONS": kafka.name(topics[4]), "FRESHET_TOPICS_SUGGESTIONS": kafka.name(topics[5]),
                "FRESHET_TOPICS_TIMELINES": kafka.name("freshet.no-such-timelines"), "FRESHET_TOPICS_PARTITIONS": "4",
            ]
            let checked = try await FreshetProcess.run(["topics", "check", "--json"], environment: environment)
            #expect(checked.status == 1, "\(checked.err)")
            let document = try JSONValue.parse(checked.out)
            let differences = try #require(document["differences"]?.arrayValue)
            #expect(differences.map { $0["what"]?.stringValue } == ["missing"])
            #expect(differences.first?["topic"]?.stringValue == kafka.name("freshet.no-such-timelines"))

            let again = try await FreshetProcess.run(["topics", "check"], environment: environment)
            #expect(again.status == 1, "the check changed nothing")

            guard kafka.embedded != nil else { return }
            // A real broker would report that it is not compacted.
            var complete = environment
            complete["FRESHET_TOPICS_TIMELINES"] = kafka.name("freshet.other")
            #expect(try await FreshetProcess.run(["topics", "check"], environment: complete).status == 0)
            complete["FRESHET_TOPICS_PARTITIONS"] = "5"
            let few = try await FreshetProcess.run(["topics", "check"], environment: complete)
            #expect(few.status == 1)
            #expect(few.out.contains("has 4 partitions; expected 5"))
        }
    }

    @Test("Unreachable brokers and missing settings are reported")
    func unreachable() async throws {
        let absent = try await HealthProbe.withSilentPort { port in
            try await FreshetProcess.run(["topics", "check", "--set", "kafka.bootstrapServers=127.0.0.1:\(port)"])
        }
        #expect(absent.status == 69)
        let unnamed = try await FreshetProcess.run(["topics", "apply"])
        #expect(unnamed.status == 78)
        #expect(unnamed.err.contains("kafka.bootstrapServers"))
    }
}
