// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import ReloadWorkers
import TestSupport
import Testing
import WidgetModel

@testable import FreshetService
@testable import freshet

/// Agreement between `schemas/asyncapi.yaml` and the topics that `freshet topics apply` creates.
@Suite(.timeLimit(.patience))
struct TopicsContractTests {
    private static let document = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "schemas/asyncapi.yaml")

    @Test func topics() throws {
        let text = try String(contentsOf: Self.document, encoding: .utf8)
        let outcome = LocatedYAML.read(text, file: "asyncapi.yaml")
        let located = try #require(outcome.documents.first)
        let document = located.json
        var channels: [String: JSONValue] = [:]
        for channel in try #require(document["channels"]?.objectValue).members {
            channels[try #require(channel.value["address"]?.stringValue)] = channel.value["bindings"]?["kafka"]
        }
        var settings = Settings()
        settings.workers.publishDecisions = true
        for target in settings.topicTargets {
            let described = channels.removeValue(forKey: target.name)
            let channel = try #require(described, "\(target.name) is not described")
            let configuration = channel["topicConfiguration"]
            #expect(channel["partitions"]?.numberValue?.int64 == Int64(target.partitions), "\(target.name)")
            #expect(configuration?["cleanup.policy"] == [target.isCompacted ? "compact" : "delete"])
            let retention = configuration?["retention.ms"]?.numberValue?.int64.map { Duration.milliseconds($0) }
            #expect(retention == target.retention, "\(target.name)")
        }
        #expect(channels.isEmpty, "\(channels.keys.sorted()) are not created")
    }
}
